// What this process runs on: cores granted to it, and the identity of the binary.
#pragma once

#include <string>

namespace lockstep {

// Cores this process may use: the affinity mask, cut by a cgroup (v1 or v2) CPU quota. At least 1.
int granted_cores();

// The linker's build id of the running program (40 hex digits): equal only for the same binary.
std::string build_id();

// "0.1.0"
const char* version();

}  // namespace lockstep
