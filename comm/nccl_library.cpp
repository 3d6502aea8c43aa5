// NCCL, loaded when it is first called (core/cuda_library.h). Each function here stands for the one of the
// same name in the library.
#include <nccl.h>

#include <cstddef>

#include "core/cuda_library.h"

namespace {

struct Nccl {
  lockstep::CudaLibrary library{"libnccl.so." LOCKSTEP_TEXT(NCCL_MAJOR), {LOCKSTEP_NCCL_FOLDER}};
  LOCKSTEP_FUNCTION(ncclGetVersion);
  LOCKSTEP_FUNCTION(ncclGetUniqueId);
  LOCKSTEP_FUNCTION(ncclCommInitRankConfig);
  LOCKSTEP_FUNCTION(ncclAllReduce);
  LOCKSTEP_FUNCTION(ncclReduceScatter);
  LOCKSTEP_FUNCTION(ncclAllGather);
  LOCKSTEP_FUNCTION(ncclBroadcast);
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
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return nccl().ncclReduceScatter(from, to, count, type, op, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return nccl().ncclAllGather(from, to, count, type, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return nccl().ncclBroadcast(from, to, count, type, root, comm, stream);
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
