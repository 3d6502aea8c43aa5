// cuBLAS for kernels/cuda: checked calls, and the handle of one backend.
#pragma once

#include <cublas_v2.h>

#include "core/stream.h"

namespace lockstep::cuda {
namespace detail {

[[noreturn]] void cublas_failed(cublasStatus_t status, const char* expression, const char* file, int line);

}  // namespace detail

// Evaluates the expression once. On failure: Error(device), or Error(memory) where memory ran out, with the
// expression, the place and cuBLAS's name and text for the status.
#define CUBLAS_CHECK(expression)                                                                \
  do {                                                                                          \
    const cublasStatus_t cublas_status_ = (expression);                                         \
    if (cublas_status_ != CUBLAS_STATUS_SUCCESS) [[unlikely]] {                                 \
      ::lockstep::cuda::detail::cublas_failed(cublas_status_, #expression, __FILE__, __LINE__); \
    }                                                                                           \
  } while (false)

// Belongs to the device that is current when it is made.
class CublasHandle {
 public:
  CublasHandle();
  ~CublasHandle();
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;

  cublasHandle_t on(const char* op, Stream& stream);  // ready to enqueue on the stream

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace lockstep::cuda
