// Scratch memory of one backend: a few named areas that only ever grow, so that a step after the first
// allocates nothing. An area's content lives until the next request for the same area, so ops that share one
// run one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/tensor.h"

namespace lockstep {

// Area: an enum whose last value is `count`. Memory: the allocator.
template <class Area, class Memory>
class ScratchAreas {
 public:
  explicit ScratchAreas(Memory allocator = {}) : allocator_(std::move(allocator)) {}
  ScratchAreas(const ScratchAreas&) = delete;
  ScratchAreas& operator=(const ScratchAreas&) = delete;

  // Growing gives the old memory back first; where ops may still be using it, the allocator waits for them
  // (as cudaFree does).
  void* get(Area area, std::int64_t bytes) {
    Buffer& buffer = buffers_[static_cast<std::size_t>(area)];
    if (buffer.bytes() < bytes) {
      ++growths_;
      buffer = Buffer();
      buffer = Buffer(allocator_, bytes);
    }
    return buffer.data();
  }
  template <class T>
  T* array(Area area, std::int64_t count) {
    return static_cast<T*>(get(area, count * static_cast<std::int64_t>(sizeof(T))));
  }
  std::int64_t growths() const { return growths_; }
  const Memory& allocator() const { return allocator_; }

 private:
  Memory allocator_;
  std::int64_t growths_ = 0;
  std::array<Buffer, static_cast<std::size_t>(Area::count)> buffers_;
};

}  // namespace lockstep
