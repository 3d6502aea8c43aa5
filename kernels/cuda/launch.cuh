// The one way to launch a kernel. cudaLaunchKernelEx is an ordinary function call, so the same source also
// compiles where there is no nvcc; a launch that the runtime refuses is an Error(device)
// with the kernel's name.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "core/cuda_check.h"
#include "core/error.h"
#include "core/stream.h"

namespace lockstep::cuda {

constexpr int kThreads = 256;  // a block of an elementwise kernel: eight warps

// Blocks that cover count items, per_block each.
inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  const std::int64_t blocks = (count + per_block - 1) / per_block;
  LOCKSTEP_CHECK(blocks > 0 && blocks < (std::int64_t{1} << 31), "{} items need {} blocks", count, blocks);
  return static_cast<unsigned>(blocks);
}

// The handle of a CudaStream; op names what was to run on it.
inline cudaStream_t native(const char* op, Stream& stream) {
  LOCKSTEP_CHECK(stream.native_handle() != nullptr, "{}: the stream is not a CUDA stream", op);
  return static_cast<cudaStream_t>(stream.native_handle());
}

// Enqueues kernel(arguments...) on the stream, a CudaStream. Errors of the kernel itself show at the next
// wait.
template <class... Parameters, class... Arguments>
void launch(const char* name, Stream& stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = native(name, stream);
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
  if (status != cudaSuccess) detail::cuda_failed(status, name, __FILE__, __LINE__);
}

}  // namespace lockstep::cuda
