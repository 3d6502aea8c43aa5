// Scratch memory of the ops on one device: one area that only ever grows, so that a step after the first
// allocates nothing.
#pragma once

#include <cstdint>

#include "core/cuda_allocator.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace lockstep::cuda {

// One workspace serves one stream. Ops of a stream run one after the other, so each may overwrite what the op
// before it left; two streams would overwrite each other.
class Workspace {
 public:
  explicit Workspace(int device) : allocator_(device) {}

  // At least count elements, aligned to 256 bytes, for one op. Where the area grows, the host first waits for
  // the stream: kernels that were launched may still use the old one.
  template <class T>
  T* array(Stream& stream, std::int64_t count) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    if (buffer_.bytes() < bytes) {
      stream.synchronize();
      buffer_ = Buffer();  // give the old one back first
      buffer_ = Buffer(allocator_, bytes);
    }
    return static_cast<T*>(buffer_.data());
  }

 private:
  CudaAllocator allocator_;  // outlives the buffer
  Buffer buffer_;
};

}  // namespace lockstep::cuda
