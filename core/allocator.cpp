#include "core/allocator.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace lockstep {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kHugePage = 2 << 20;

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

[[noreturn]] void out_of_memory(std::int64_t bytes) {
  fail(ExitCode::memory,
       "out of memory: this process cannot get {:.1f} MiB more. Use a smaller --batch-size or fewer ranks on "
       "this host, or raise its memory limit (ulimit -v, the container's limit).",
       static_cast<double>(bytes) / (1 << 20));
}

// Whole huge pages at a huge-page address, so that one fault brings 2 MiB. The kernel aligns a mapping to 4
// KiB only, so one page more than needed is mapped and the two ends are given back.
void* map_huge(std::int64_t bytes) {
  const auto wanted = static_cast<std::uintptr_t>(round_up(bytes, kHugePage));
  const auto page = static_cast<std::uintptr_t>(kHugePage);
  void* raw = mmap(nullptr, wanted + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) out_of_memory(bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(raw);
  const auto aligned = (begin + page - 1) / page * page;
  if (aligned > begin) munmap(raw, aligned - begin);
  const auto tail = begin + page - aligned;
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + wanted), tail);
  void* data = reinterpret_cast<void*>(aligned);
  // Advice only: without transparent huge pages the memory is the same, just slower to touch first.
  madvise(data, wanted, MADV_HUGEPAGE);
  return data;
}

}  // namespace

void* HostAllocator::allocate(std::int64_t bytes) {
  LOCKSTEP_CHECK(bytes >= 0, "allocation of {} bytes", bytes);
  if (bytes >= kHugePage) return map_huge(bytes);
  const auto size = static_cast<std::size_t>(round_up(bytes > 0 ? bytes : 1, kAlignment));
  void* data = std::aligned_alloc(kAlignment, size);
  if (data == nullptr) out_of_memory(bytes);
  std::memset(data, 0, size);
  return data;
}

void HostAllocator::deallocate(void* data, std::int64_t bytes) noexcept {
  if (data == nullptr) return;
  if (bytes >= kHugePage) {
    munmap(data, static_cast<std::size_t>(round_up(bytes, kHugePage)));
  } else {
    std::free(data);
  }
}

}  // namespace lockstep
