#include "core/cuda_library.h"

#include <dlfcn.h>

#include "core/error.h"

namespace lockstep {

CudaLibrary::CudaLibrary(const char* name, std::initializer_list<const char*> folders)
    : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
  for (const char* folder : folders) {
    if (handle_ == nullptr)
      handle_ = dlopen(fmt::format("{}/{}", folder, name).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle_ == nullptr) {
    fail(ExitCode::device,
         "--device cuda needs {}, which cannot be loaded ({}). Install it, or name its folder in "
         "LD_LIBRARY_PATH; "
         "--device cpu runs without it",
         name, dlerror());
  }
}

void* CudaLibrary::address_of(const char* function) const {
  void* const found = dlsym(handle_, function);
  if (found == nullptr) fail(ExitCode::device, "{} has no {}: {}", name_, function, dlerror());
  return found;
}

}  // namespace lockstep
