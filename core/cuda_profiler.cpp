// NVTX loads the tool that this variable names, and does nothing without one.
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>

#include "core/profiler.h"

namespace lockstep::detail {

bool profiler_attached() {
  static const bool attached = std::getenv("NVTX_INJECTION64_PATH") != nullptr;
  return attached;
}

void push_profiler_range(const std::string& name) {
  nvtxRangePushA(name.c_str());
}

void pop_profiler_range() {
  nvtxRangePop();
}

}  // namespace lockstep::detail
