// What the CUDA runtime says about this machine, and how its errors are told.
#include "core/cuda_check.h"
#include "core/device.h"
#include "core/error.h"

namespace lockstep {
namespace {

// The runtime has one error for no driver at all and for one that is too old.
std::string text_of(cudaError_t error) {
  int driver = 0, runtime = 0;
  if (error != cudaErrorInsufficientDriver || cudaDriverGetVersion(&driver) != cudaSuccess ||
      cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    return cudaGetErrorString(error);
  if (driver == 0) return "no NVIDIA driver is installed";
  return fmt::format("the NVIDIA driver is for CUDA {}.{}, this program for {}.{}: update the driver",
                     driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

}  // namespace
namespace detail {

void cuda_failed(cudaError_t error, const char* expression, const char* file, int line) {
  cudaGetLastError();  // the runtime would report it once more from the next call
  const bool memory = error == cudaErrorMemoryAllocation;
  fail(memory ? ExitCode::memory : ExitCode::device, "{} failed: {} ({}: {}) at {}:{}. {}", expression,
       text_of(error), static_cast<int>(error), cudaGetErrorName(error), file, line,
       memory ? "Use a smaller --batch-size, or a device that nobody else uses"
              : "nvidia-smi shows whether the device is healthy; --device cpu runs without it");
}

}  // namespace detail

int cuda_device_count(std::string* why) {
  int count = 0;  // not written on failure
  const cudaError_t status = cudaGetDeviceCount(&count);
  switch (status) {
    case cudaSuccess:
      if (count == 0 && why) *why = "no CUDA device is visible";
      return count;
    case cudaErrorInsufficientDriver:  // 35
    case cudaErrorStubLibrary:         // 34: the toolkit's stub stands in for the driver
    case cudaErrorNoDevice:            // 100: a driver, and no GPU
      cudaGetLastError();
      if (why) *why = fmt::format("{} ({})", text_of(status), static_cast<int>(status));
      return 0;
    default:
      detail::cuda_failed(status, "cudaGetDeviceCount", __FILE__, __LINE__);
  }
}

}  // namespace lockstep
