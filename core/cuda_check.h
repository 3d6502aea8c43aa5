// Checked calls of the CUDA runtime. For core's and kernels' CUDA files only: it includes a CUDA header.
#pragma once

#include <cuda_runtime_api.h>

namespace lockstep::detail {

[[noreturn]] void cuda_failed(cudaError_t error, const char* expression, const char* file, int line);

}  // namespace lockstep::detail

// Evaluates the expression once. On failure: Error(device), or Error(memory) where memory ran out, with the
// expression, the place and CUDA's name and text for the error.
#define CUDA_CHECK(expression)                                                        \
  do {                                                                                \
    const cudaError_t cuda_status_ = (expression);                                    \
    if (cuda_status_ != cudaSuccess) [[unlikely]] {                                   \
      ::lockstep::detail::cuda_failed(cuda_status_, #expression, __FILE__, __LINE__); \
    }                                                                                 \
  } while (false)
