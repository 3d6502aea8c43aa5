#include "core/cuda_allocator.h"

#include <cstring>

#include "core/cuda_check.h"
#include "core/error.h"

namespace lockstep {

void* CudaAllocator::allocate(std::int64_t bytes) {
  CUDA_CHECK(cudaSetDevice(device_));
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    constexpr double kMiB = 1 << 20;
    fail(ExitCode::memory,
         "CUDA device {} has no {:.0f} MiB left ({:.0f} of {:.0f} MiB are free): use a smaller --batch-size "
         "or --model, or a device that nobody else uses",
         device_, static_cast<double>(bytes) / kMiB, static_cast<double>(free) / kMiB,
         static_cast<double>(total) / kMiB);
  }
  CUDA_CHECK(status);
  // Streams of ours do not wait for the default stream, so the host does.
  cudaError_t cleared = cudaMemset(data, 0, static_cast<std::size_t>(bytes));
  if (cleared == cudaSuccess) cleared = cudaDeviceSynchronize();
  if (cleared != cudaSuccess) cudaFree(data);
  CUDA_CHECK(cleared);
  return data;
}

void CudaAllocator::deallocate(void* data, std::int64_t /*bytes*/) noexcept {
  cudaFree(data);  // knows its device; an error here belongs to earlier work, which was reported where it was
                   // waited for
}

void* PinnedAllocator::allocate(std::int64_t bytes) {
  void* data = nullptr;
  CUDA_CHECK(cudaMallocHost(&data, static_cast<std::size_t>(bytes)));
  std::memset(data, 0, static_cast<std::size_t>(bytes));
  return data;
}

void PinnedAllocator::deallocate(void* data, std::int64_t /*bytes*/) noexcept {
  cudaFreeHost(data);
}

}  // namespace lockstep
