// Scratch memory of one backend: a few named areas that only ever grow, so that a step after the first
// allocates nothing. An area's content lives until the next request for the same area.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/tensor.h"

namespace lockstep::cpu {

enum class Area {
  onednn,        // scratchpad of a primitive
  weights,       // weights in the layout that a primitive wants
  columns,       // pixels gathered for a matrix product
  result,        // a product before it is scattered, added or rounded
  source,        // operands converted to another type
  gradient,      // the same for the second operand
  widened,       // a result that is rounded to bf16 in the end
  sums,          // of each thread, to be added
  coefficients,  // of each channel
  count
};

class Workspace {
 public:
  void* get(Area area, std::int64_t bytes) {
    Buffer& buffer = buffers_[static_cast<std::size_t>(area)];
    if (buffer.bytes() < bytes) {
      buffer = Buffer();  // give the old one back first
      buffer = Buffer(allocator_, bytes);
    }
    return buffer.data();
  }
  template <class T>
  T* array(Area area, std::int64_t count) {
    return static_cast<T*>(get(area, count * static_cast<std::int64_t>(sizeof(T))));
  }

 private:
  HostAllocator allocator_;
  std::array<Buffer, static_cast<std::size_t>(Area::count)> buffers_;
};

}  // namespace lockstep::cpu
