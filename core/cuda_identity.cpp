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

}  // namespace lockstep
