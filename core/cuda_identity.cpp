#include "core/cuda_identity.h"

#include "core/cuda_check.h"
#include "core/error.h"

namespace lockstep {

CudaIdentity cuda_identity(int device) {
  cudaDeviceProp properties = {};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  CudaIdentity identity;
  identity.name = properties.name;
  identity.architecture = 10 * properties.major + properties.minor;
  for (const char byte : properties.uuid.bytes)
    identity.uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return identity;
}

bool cuda_peers_everywhere() {
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  for (int device = 0; device < count; ++device) {
    for (int other = 0; other < count; ++other) {
      int can = 1;
      if (other != device) CUDA_CHECK(cudaDeviceCanAccessPeer(&can, device, other));
      if (can == 0) return false;
    }
  }
  return true;
}

}  // namespace lockstep
