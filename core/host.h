// What this process runs on: cores granted to it, and the identity of the binary.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// Cores this process may use: the affinity mask, cut by a cgroup (v1 or v2) CPU quota. At least 1.
int granted_cores();

// The CPU quota that a cgroup puts on this process, in cores; 0 where there is none. proc_cgroup is the text
// of /proc/self/cgroup, root where the cgroup file systems are mounted. The tightest group on the way to the
// root counts.
double cgroup_cores(const std::string& proc_cgroup, const std::string& root);

// The linker's build id of the running program (40 hex digits): equal only for the same binary.
std::string build_id();

// "0.1.0"
const char* version();

// The most memory that this process has had at a time (resident set), in bytes.
std::int64_t peak_memory();

}  // namespace lockstep
