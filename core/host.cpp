#include "core/host.h"

#include <fmt/format.h>
#include <link.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// v2: one file "max 100000" or "150000 100000". v1: two files, the quota is -1 where there is none.
double quota_of(const std::string& group, bool v2) {
  double quota = 0, period = 0;
  if (v2) {
    std::istringstream(read_text(group + "/cpu.max")) >> quota >> period;
  } else {
    std::istringstream(read_text(group + "/cpu.cfs_quota_us")) >> quota;
    std::istringstream(read_text(group + "/cpu.cfs_period_us")) >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

double tightest(const std::string& root, std::string group, bool v2) {
  double least = 0;
  while (true) {
    const double cores = quota_of(root + group, v2);
    if (cores > 0 && (least == 0 || cores < least)) least = cores;
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

int affinity_cores() {
  // A mask sized for 8192 CPUs: the fixed cpu_set_t fails with EINVAL above 1024.
  std::vector<cpu_set_t> mask(8);
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  if (sched_getaffinity(0, bytes, mask.data()) == 0) return CPU_COUNT_S(bytes, mask.data());
  return static_cast<int>(std::thread::hardware_concurrency());
}

std::string build_id_in_notes(const std::byte* notes, std::size_t bytes) {
  const auto aligned = [](std::size_t size) { return (size + 3) / 4 * 4; };
  std::size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= bytes) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes + at, sizeof header);
    const std::byte* name = notes + at + sizeof header;
    const std::byte* content = name + aligned(header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string hex;
      for (std::size_t i = 0; i < header.n_descsz; ++i)
        hex += fmt::format("{:02x}", static_cast<unsigned>(content[i]));
      return hex;
    }
    at += sizeof header + aligned(header.n_namesz) + aligned(header.n_descsz);
  }
  return {};
}

// dl_iterate_phdr visits the program itself first; a non-zero return ends the walk there.
int visit_program(dl_phdr_info* info, std::size_t, void* result) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const std::byte*>(info->dlpi_addr + segment.p_vaddr);
    const std::string id = build_id_in_notes(notes, segment.p_memsz);
    if (!id.empty()) *static_cast<std::string*>(result) = id;
  }
  return 1;
}

}  // namespace

double cgroup_cores(const std::string& proc_cgroup, const std::string& root) {
  double least = 0;
  std::istringstream lines(proc_cgroup);
  // Each line is "id:controllers:path"; v2 has one line, "0::path".
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    double cores = 0;
    if (controllers.empty()) {
      cores = tightest(root, path, true);
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      cores = std::max(tightest(root + "/" + controllers, path, false), tightest(root + "/cpu", path, false));
    }
    if (cores > 0 && (least == 0 || cores < least)) least = cores;
  }
  return least;
}

int granted_cores() {
  int cores = affinity_cores();
  const double quota = cgroup_cores(read_text("/proc/self/cgroup"), "/sys/fs/cgroup");
  // Rounded down: a thread beyond the quota is stopped in the middle of a step, and the others wait for it.
  if (quota > 0) cores = std::min(cores, static_cast<int>(std::floor(quota + 1e-6)));
  return std::max(cores, 1);
}

std::string build_id() {
  std::string id = "none";
  dl_iterate_phdr(visit_program, &id);
  return id;
}

const char* version() {
  return LOCKSTEP_VERSION;
}

std::int64_t peak_memory() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} << 10;
}

}  // namespace lockstep
