// What a CUDA device is: to tell two ranks on one device, or devices that differ.
#pragma once

#include <string>

namespace lockstep {

struct CudaIdentity {
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // 32 hexadecimal digits, of this device alone in the world
};
CudaIdentity cuda_identity(int device);  // Error(device) where there is none

}  // namespace lockstep
