// Copies and zeros, all of them the runtime's, and what every .cu file was compiled for.
#include <algorithm>

#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"

namespace lockstep::cuda {

namespace {

void copy(const char* op, Stream& stream, void* dst, const void* src, std::int64_t bytes,
          cudaMemcpyKind kind) {
  if (bytes == 0) return;
  CUDA_CHECK(cudaMemcpyAsync(dst, src, static_cast<std::size_t>(bytes), kind, native(op, stream)));
}

}  // namespace

// Bytes: reads and writes each once. The host waits only for a copy from or to memory that is not pinned.
void copy_to_device(Stream& stream, void* dst, const void* host_src, std::int64_t bytes) {
  contract::memory("copy_to_device", dst, host_src, bytes);
  copy("copy_to_device", stream, dst, host_src, bytes, cudaMemcpyHostToDevice);
}

void copy_to_host(Stream& stream, void* host_dst, const void* src, std::int64_t bytes) {
  contract::memory("copy_to_host", host_dst, src, bytes);
  copy("copy_to_host", stream, host_dst, src, bytes, cudaMemcpyDeviceToHost);
}

void copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes) {
  contract::copy_on_device(dst, src, bytes);
  copy("copy_on_device", stream, dst, src, bytes, cudaMemcpyDeviceToDevice);
}

// Bytes: writes each once.
void fill_zero(Stream& stream, void* dst, std::int64_t bytes) {
  contract::memory("fill_zero", dst, dst, bytes);
  if (bytes == 0) return;
  CUDA_CHECK(cudaMemsetAsync(dst, 0, static_cast<std::size_t>(bytes), native("fill_zero", stream)));
}

// nvcc's list of the compute capabilities that it was told to compile for, times 100.
int oldest_architecture() {
  return std::min({__CUDA_ARCH_LIST__}) / 10;
}

}  // namespace lockstep::cuda
