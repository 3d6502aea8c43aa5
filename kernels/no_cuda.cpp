// Stands in for kernels/cuda/ in a build without the CUDA Toolkit.
#include "core/error.h"
#include "kernels/backend.h"

namespace lockstep {

std::unique_ptr<Backend> make_cuda_backend(const Device& device) {
  fail(ExitCode::device,
       "CUDA device {} was asked for, but this build has no CUDA: install the CUDA Toolkit (nvcc) and build "
       "again, or use --device cpu",
       device.index);
}

std::string cuda_backend_libraries() {
  return "not built in";
}

}  // namespace lockstep
