#include "core/device.h"

namespace lockstep {

const char* name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::reference:
      return "reference";
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
  }
  return "unknown";
}

}  // namespace lockstep
