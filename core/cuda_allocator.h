// Memory of one CUDA device, and host memory that its copies reach by themselves.
#pragma once

#include "core/allocator.h"

namespace lockstep {

class CudaAllocator final : public Allocator {
 public:
  explicit CudaAllocator(int device) : device_(device) {}
  // Waits until the memory is zero. Error(memory) names the size and what is free.
  void* allocate(std::int64_t bytes) override;
  void deallocate(void* data, std::int64_t bytes) noexcept override;

 private:
  int device_;
};

// Page-locked host memory: a copy from or to it does not make the host wait.
class PinnedAllocator final : public Allocator {
 public:
  void* allocate(std::int64_t bytes) override;
  void deallocate(void* data, std::int64_t bytes) noexcept override;
};

}  // namespace lockstep
