// Devices, versions and errors of the runtime's double.
#include <utility>

#include "cudasim/state.h"

using namespace cudasim;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaGetDeviceCount")) return answer(error);
  if (state().config.devices == 0) return answer(cudaErrorNoDevice);
  *count = state().config.devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaSetDevice")) return answer(error);
  if (device < 0 || device >= state().config.devices) return answer(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

// An H200, unless the configuration names another. The UUID holds the number of the device.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaGetDeviceProperties")) return answer(error);
  if (device < 0 || device >= state().config.devices) return answer(cudaErrorInvalidDevice);
  *properties = {};
  state().config.name.copy(properties->name, sizeof properties->name - 1);
  properties->uuid.bytes[15] = static_cast<char>(device);
  properties->major = state().config.architecture / 10;
  properties->minor = state().config.architecture % 10;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = static_cast<std::size_t>(state().config.memory);
  return cudaSuccess;
}

// Of those that the project asks for; clocks as in cudnn/h200.json.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Lock lock(state().mutex);
  if (device < 0 || device >= state().config.devices) return answer(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrClockRate:
      *value = 1980000;
      return cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      *value = 3201000;
      return cudaSuccess;
    default:
      return answer(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = state().config.devices > 0 ? CUDART_VERSION : 0;
  return cudaSuccess;
}

// No two devices reach each other, as in a desktop computer.
cudaError_t cudaDeviceCanAccessPeer(int* can, int /*device*/, int /*peer*/) {
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return std::exchange(last_error(), cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return last_error();
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "an error of the simulated device";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}

}  // extern "C"
