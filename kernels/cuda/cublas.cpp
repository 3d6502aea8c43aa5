#include "kernels/cuda/cublas.h"

#include "core/error.h"

namespace lockstep::cuda {
namespace detail {

void cublas_failed(cublasStatus_t status, const char* expression, const char* file, int line) {
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  fail(memory ? ExitCode::memory : ExitCode::device, "{} failed: {} ({}: {}) at {}:{}. {}", expression,
       cublasGetStatusString(status), static_cast<int>(status), cublasGetStatusName(status), file, line,
       memory ? "Use a smaller --batch-size, or a device that nobody else uses"
              : "nvidia-smi shows whether the device is healthy; --device cpu runs without it");
}

}  // namespace detail

CublasHandle::CublasHandle() {
  CUBLAS_CHECK(cublasCreate(&handle_));
  // Parts of a sum with a 16-bit result are added in f32, too.
  CUBLAS_CHECK(cublasSetMathMode(handle_, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
}

CublasHandle::~CublasHandle() {
  cublasDestroy(handle_);
}

cublasHandle_t CublasHandle::on(const char* op, Stream& stream) {
  LOCKSTEP_CHECK(stream.native_handle() != nullptr, "{}: the stream is not a CUDA stream", op);
  CUBLAS_CHECK(cublasSetStream(handle_, static_cast<cudaStream_t>(stream.native_handle())));
  return handle_;
}

}  // namespace lockstep::cuda
