// Copies between device tensors.
#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"

namespace lockstep::cuda {

// Bytes: reads and writes each once. The host does not wait.
void copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes) {
  contract::copy_on_device(dst, src, bytes);
  if (bytes == 0) return;
  CUDA_CHECK(cudaMemcpyAsync(dst, src, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                             native("copy_on_device", stream)));
}

}  // namespace lockstep::cuda
