// What a CUDA device is: to tell two ranks on one device, devices that differ, and one that is too old.
#pragma once

#include <string>

namespace lockstep {

struct CudaIdentity {
  std::string name;      // "NVIDIA H200"
  std::string uuid;      // 32 hexadecimal digits, of this device alone in the world
  int architecture = 0;  // ten times the compute capability: 90
};
CudaIdentity cuda_identity(int device);  // Error(device) where there is none

// Whether all devices that this process sees reach each other's memory. Of one alone: true.
bool cuda_peers_everywhere();

}  // namespace lockstep
