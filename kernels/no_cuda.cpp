// Stands in for kernels/cuda/ in a build without the CUDA Toolkit.
#include "core/error.h"
#include "kernels/backend.h"

namespace lockstep {

std::string cuda_device_problem(int /*index*/) {
  std::string why;
  cuda_device_count(&why);
  return why;
}

std::unique_ptr<Backend> make_cuda_backend(const Device& device) {
  fail(ExitCode::device, "CUDA device {} was asked for, but {}. --device cpu runs without it", device.index,
       cuda_device_problem(device.index));
}

std::string cuda_backend_libraries() {
  return "not built in";
}

}  // namespace lockstep
