#include "data/pixel_memory.h"

#include <sys/mman.h>

namespace lockstep {

void allocate_pixels(std::vector<std::uint8_t>& pixels, std::int64_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  pixels.reserve(static_cast<std::size_t>(bytes));
  // The memory is reserved but not touched yet: the advice still decides what its first touch gets. It covers
  // whole pages inside the array only, and is no more than advice: a refusal changes nothing but time.
  const auto begin = (reinterpret_cast<std::uintptr_t>(pixels.data()) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<std::uintptr_t>(pixels.data()) + pixels.capacity()) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  pixels.resize(static_cast<std::size_t>(bytes));
}

}  // namespace lockstep
