// The devices on which comparisons with PyTorch run: those that every build and machine of this kind has.
#pragma once

#include <vector>

#include "kernels/backend.h"

namespace lockstep::test {

// The reference loops, and the CPU backend where this build has it.
inline std::vector<Device> host_devices() {
  std::vector<Device> devices{{DeviceKind::reference, 0, 1}};
  if (has_cpu_backend()) devices.push_back({DeviceKind::cpu, 0, 2});
  return devices;
}

}  // namespace lockstep::test
