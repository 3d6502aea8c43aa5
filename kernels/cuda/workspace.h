// Device memory that ops use for the length of a call. A few named areas that only ever grow, so that a step
// after the first allocates nothing. Ops of one backend run on one stream, in order: the next user of an area
// comes after it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/cuda_allocator.h"
#include "core/tensor.h"

namespace lockstep::cuda {

enum class Area {
  product,  // of a matrix product or convolution, before it is rounded or added
  sums,     // of each block, to be added
  plan,     // what a cuDNN plan asks for
  count
};

class Workspace {
 public:
  explicit Workspace(int device) : allocator_(device) {}

  // Growing waits for the device, for the old memory may be in use.
  void* get(Area area, std::int64_t bytes) {
    Buffer& buffer = buffers_[static_cast<std::size_t>(area)];
    if (buffer.bytes() < bytes) {
      buffer = Buffer();  // give the old one back first: cudaFree waits
      buffer = Buffer(allocator_, bytes);
    }
    return buffer.data();
  }
  template <class T>
  T* array(Area area, std::int64_t count) {
    return static_cast<T*>(get(area, count * static_cast<std::int64_t>(sizeof(T))));
  }

 private:
  CudaAllocator allocator_;
  std::array<Buffer, static_cast<std::size_t>(Area::count)> buffers_;
};

}  // namespace lockstep::cuda
