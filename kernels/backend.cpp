#include "kernels/backend.h"

#include "core/error.h"

namespace lockstep {

std::unique_ptr<Backend> make_backend(const Device& device) {
  switch (device.kind) {
    case DeviceKind::reference:
      return make_reference_backend();
    case DeviceKind::cpu:
      return make_cpu_backend(device.threads);
    case DeviceKind::cuda:
      return make_cuda_backend(device);
  }
  fail(ExitCode::internal, "make_backend: unknown device kind {}", static_cast<int>(device.kind));
}

}  // namespace lockstep
