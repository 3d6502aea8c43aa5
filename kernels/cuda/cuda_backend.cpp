// What this build offers for --device cuda. The kernels of ops.h do not make a network yet, so there is no
// backend to hand out: asking for one is an error, never a silent change of device.
#include "core/cuda_check.h"
#include "core/error.h"
#include "kernels/backend.h"

namespace lockstep {

std::unique_ptr<Backend> make_cuda_backend(int index) {
  std::string why;
  const int count = cuda_device_count(&why);
  if (count == 0) {
    fail(ExitCode::device, "CUDA device {} was asked for, but this machine has none: {}. Use --device cpu",
         index, why);
  }
  if (index < 0 || index >= count) {
    fail(ExitCode::device,
         "CUDA device {} was asked for, but this machine has {}: start at most that many ranks a host", index,
         count);
  }
  fail(ExitCode::device,
       "the CUDA backend of this build has the ops copy_on_device, relu, sgd_step and augment_normalize and "
       "no "
       "others, which is not enough to train: use --device cpu");
}

std::string cuda_backend_libraries() {
  int version = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&version));
  return fmt::format("CUDA runtime {}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace lockstep
