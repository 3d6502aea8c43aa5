// CudaBackend's beginnings, and cuBLAS's errors.
#include "catch.h"
#include "core/error.h"
#include "cudasim/cudasim.h"
#include "kernels/cuda/cublas.h"
#include "kernels/cuda/cuda_backend.h"
#include "support/check_error.h"

using namespace lockstep;
using test::check_error;

namespace {

cublasStatus_t answer(cublasStatus_t status) {
  return status;
}

}  // namespace

TEST_CASE("make_cuda_backend: a device that is there, and why another is not") {
  CHECK(std::string(make_cuda_backend({.kind = DeviceKind::cuda, .index = 1})->name()) == "cuda");
  CHECK(cuda_backend_libraries().find("cuDNN 9.") != std::string::npos);
  check_error(ExitCode::device, "there are 2 CUDA devices",
              [] { make_cuda_backend({.kind = DeviceKind::cuda, .index = 2}); });
  cudasim::Config none = cudasim::config();
  none.devices = 0;
  const cudasim::Configured scope(none);
  check_error(ExitCode::device, "--device cpu", [] { make_cuda_backend({.kind = DeviceKind::cuda}); });
}

TEST_CASE("CUBLAS_CHECK: the expression and the remedy") {
  check_error(ExitCode::memory, "smaller --batch-size",
              [] { CUBLAS_CHECK(answer(CUBLAS_STATUS_ALLOC_FAILED)); });
  check_error(ExitCode::device, "answer(CUBLAS_STATUS_EXECUTION_FAILED) failed",
              [] { CUBLAS_CHECK(answer(CUBLAS_STATUS_EXECUTION_FAILED)); });
}
