// Checked calls of cuDNN, for kernels/cuda only.
#pragma once

#include <cudnn.h>

namespace lockstep::cuda::detail {

[[noreturn]] void cudnn_failed(cudnnStatus_t status, const char* expression, const char* file, int line);

}  // namespace lockstep::cuda::detail

// Evaluates the expression once. On failure: Error(device), or Error(memory) where memory ran out, with the
// expression, the place, cuDNN's name for the status and its last message.
#define CUDNN_CHECK(expression)                                                               \
  do {                                                                                        \
    const cudnnStatus_t cudnn_status_ = (expression);                                         \
    if (cudnn_status_ != CUDNN_STATUS_SUCCESS) [[unlikely]] {                                 \
      ::lockstep::cuda::detail::cudnn_failed(cudnn_status_, #expression, __FILE__, __LINE__); \
    }                                                                                         \
  } while (false)
