// NCCL is loaded when its first function is called, as cuBLAS and cuDNN are
// (kernels/cuda/nvidia_libraries.cpp): linked, its hundreds of megabytes would be mapped by every program at
// its start, and no program would start where it is missing. Each function here stands for the one of the
// same name in the library.
#include <dlfcn.h>
#include <nccl.h>

#include <string>

#include "core/error.h"

namespace {

#define LOCKSTEP_TEXT_OF(x) #x
#define LOCKSTEP_TEXT(x) LOCKSTEP_TEXT_OF(x)

// By the system's search path, or where it lay when this was built.
void* load(const char* library) {
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) loaded = dlopen((std::string(LOCKSTEP_NCCL_FOLDER "/") + library).c_str(), RTLD_NOW);
  if (loaded == nullptr) {
    lockstep::fail(
        lockstep::ExitCode::device,
        "--device cuda with several ranks needs {}, which cannot be loaded ({}). Install it, or name "
        "its folder in LD_LIBRARY_PATH; --device cpu runs without it",
        library, dlerror());
  }
  return loaded;
}

template <class Function>
Function* find(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) lockstep::fail(lockstep::ExitCode::device, "NCCL has no {}: {}", name, dlerror());
  return reinterpret_cast<Function*>(found);
}

#define LOCKSTEP_FUNCTION(name) decltype(::name)* name = find<decltype(::name)>(library, #name)

struct Nccl {
  void* library = load("libnccl.so." LOCKSTEP_TEXT(NCCL_MAJOR));
  LOCKSTEP_FUNCTION(ncclGetVersion);
  LOCKSTEP_FUNCTION(ncclGetUniqueId);
  LOCKSTEP_FUNCTION(ncclCommInitRankConfig);
  LOCKSTEP_FUNCTION(ncclAllReduce);
  LOCKSTEP_FUNCTION(ncclCommGetAsyncError);
  LOCKSTEP_FUNCTION(ncclCommAbort);
  LOCKSTEP_FUNCTION(ncclCommDestroy);
  LOCKSTEP_FUNCTION(ncclGetErrorString);
  LOCKSTEP_FUNCTION(ncclGetLastError);
};

const Nccl& nccl() {
  static const Nccl functions;
  return functions;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return nccl().ncclGetVersion(version);
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl().ncclGetUniqueId(id);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return nccl().ncclCommInitRankConfig(comm, ranks, id, rank, config);
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return nccl().ncclAllReduce(from, to, count, type, op, comm, stream);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return nccl().ncclCommGetAsyncError(comm, error);
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return nccl().ncclCommAbort(comm);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return nccl().ncclCommDestroy(comm);
}
const char* ncclGetErrorString(ncclResult_t result) {
  return nccl().ncclGetErrorString(result);
}
const char* ncclGetLastError(ncclComm_t comm) {
  return nccl().ncclGetLastError(comm);
}

}  // extern "C"
