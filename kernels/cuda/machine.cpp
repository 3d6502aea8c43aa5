#include "kernels/cuda/machine.h"

#include <spdlog/spdlog.h>

namespace lockstep::cuda {

Machine::Machine(int device)
    : workspace(device),
      convolutions(DeviceProperties::of_device(device), workspace, Precision::fp32,
                   [](const std::string& message) { spdlog::warn(message); }) {}

}  // namespace lockstep::cuda
