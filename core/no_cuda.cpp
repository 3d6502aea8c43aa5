// Stands in for core/cuda_*.cpp in a build without the CUDA Toolkit.
#include "core/device.h"
#include "core/profiler.h"

namespace lockstep {

int cuda_device_count(std::string* why) {
  if (why)
    *why =
        "this build has no CUDA: build again where CMake finds the CUDA Toolkit with cuDNN, cuBLAS and NCCL";
  return 0;
}

namespace detail {
bool profiler_attached() {
  return false;
}
void push_profiler_range(const std::string&) {}
void pop_profiler_range() {}
}  // namespace detail

}  // namespace lockstep
