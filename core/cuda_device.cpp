// What the CUDA runtime says about this machine, and how its errors are told.
#include <dlfcn.h>

#include <cstdlib>

#include "core/cuda_check.h"
#include "core/device.h"
#include "core/error.h"

namespace lockstep {
namespace detail {

void cuda_failed(cudaError_t error, const char* expression, const char* file, int line) {
  cudaGetLastError();  // the runtime would report it once more from the next call
  if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary || error == cudaErrorNoDevice) {
    std::string why;
    if (cuda_device_count(&why) == 0)
      fail(ExitCode::device, "{} failed at {}:{}: {}; --device cpu runs without it", expression, file, line,
           why);
  }
  const char* remedy = "nvidia-smi shows whether the device is healthy; --device cpu runs without it";
  if (error == cudaErrorMemoryAllocation)
    remedy = "Use a smaller --batch-size, or a device that nobody else uses";
  if (error == cudaErrorNoKernelImageForDevice)
    remedy =
        "Build again for this device (CMAKE_CUDA_ARCHITECTURES, cmake/README.md); --device cpu runs without "
        "it";
  fail(error == cudaErrorMemoryAllocation ? ExitCode::memory : ExitCode::device,
       "{} failed: {} ({}: {}) at {}:{}. {}", expression, cudaGetErrorString(error), static_cast<int>(error),
       cudaGetErrorName(error), file, line, remedy);
}

}  // namespace detail

namespace {

// The CUDA version that libcuda.so.1, the driver, knows, as 1000 * major + 10 * minor. 0: it cannot be
// loaded, and error says why.
int driver_version(std::string& error) {
  // Stays loaded: the runtime has it open as well.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    error = dlerror();
    return 0;
  }
  using Function = int(int* version);
  auto* const get = reinterpret_cast<Function*>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0) error = "it does not tell its version";
  return version;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// The runtime gives one error, cudaErrorInsufficientDriver, for a driver that is too old and for none at all.
std::string why_the_driver_does_not_do() {
  int runtime = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  std::string error;
  const int driver = driver_version(error);
  if (driver == 0) {
    return fmt::format(
        "there is no NVIDIA driver ({}): install one for CUDA {} or newer, or let the container see the "
        "host's (docker run --gpus all)",
        error, version_text(runtime));
  }
  return fmt::format(
      "the NVIDIA driver is too old, it knows CUDA {} and this program needs {}: install a newer driver, or "
      "build with CUDA Toolkit {}",
      version_text(driver), version_text(runtime), version_text(driver));
}

std::string why_none_is_visible() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) {
    return fmt::format(
        "CUDA_VISIBLE_DEVICES=\"{}\" leaves no device visible: unset it, or name devices that nvidia-smi -L "
        "lists",
        visible);
  }
  return "the NVIDIA driver finds no GPU: nvidia-smi shows what it sees; a container or a batch job must "
         "be given one (docker run --gpus all)";
}

}  // namespace

int cuda_device_count(std::string* why) {
  int count = 0;  // not written on failure
  std::string reason;
  const cudaError_t status = cudaGetDeviceCount(&count);
  switch (status) {
    case cudaSuccess:
      if (count == 0) reason = why_none_is_visible();
      break;
    case cudaErrorNoDevice:
      reason = why_none_is_visible();
      break;
    case cudaErrorInsufficientDriver:
      reason = why_the_driver_does_not_do();
      break;
    case cudaErrorStubLibrary:
      reason =
          "the CUDA Toolkit's stub stands in for the NVIDIA driver: take its folder, lib64/stubs, out of "
          "LD_LIBRARY_PATH, and install the driver where there is none";
      break;
    default:
      detail::cuda_failed(status, "cudaGetDeviceCount", __FILE__, __LINE__);
  }
  cudaGetLastError();  // the runtime would report it once more from the next call
  if (why && count == 0) *why = reason;
  return count;
}

}  // namespace lockstep
