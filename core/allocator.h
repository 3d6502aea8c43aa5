// Where memory comes from: plain host memory, device memory, or a communicator's segment.
#pragma once

#include <cstdint>

namespace lockstep {

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Zero-filled, aligned to 256; Error(memory) when there is none.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void deallocate(void* data, std::int64_t bytes) noexcept = 0;
};

// Anonymous pages, huge where the kernel grants them: a page fault costs microseconds for every 4 KiB, and a
// training process touches hundreds of MiB before its first step.
class HostAllocator final : public Allocator {
 public:
  void* allocate(std::int64_t bytes) override;
  void deallocate(void* data, std::int64_t bytes) noexcept override;
};

}  // namespace lockstep
