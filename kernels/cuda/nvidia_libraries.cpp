// cuBLAS and cuDNN, loaded when they are first called (core/cuda_library.h). Each function here stands for
// the one of the same name in the library.
#include <cublas_v2.h>
#include <cudnn.h>

#include <cstddef>
#include <cstdint>

#include "core/cuda_library.h"

namespace {

struct Cublas {
  lockstep::CudaLibrary library{"libcublas.so." LOCKSTEP_TEXT(CUBLAS_VER_MAJOR), {LOCKSTEP_CUDA_FOLDERS}};
  LOCKSTEP_FUNCTION(cublasCreate_v2);
  LOCKSTEP_FUNCTION(cublasDestroy_v2);
  LOCKSTEP_FUNCTION(cublasSetStream_v2);
  LOCKSTEP_FUNCTION(cublasSetMathMode);
  LOCKSTEP_FUNCTION(cublasGetProperty);
  LOCKSTEP_FUNCTION(cublasGetStatusName);
  LOCKSTEP_FUNCTION(cublasGetStatusString);
  // Overloaded in the header: this is the one that the library has.
  using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                const void*, const void*, cudaDataType, int, const void*, cudaDataType, int,
                                const void*, void*, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
  GemmEx* cublasGemmEx = library.find<GemmEx>("cublasGemmEx");
};

struct Cudnn {
  lockstep::CudaLibrary library{"libcudnn.so." LOCKSTEP_TEXT(CUDNN_MAJOR), {LOCKSTEP_CUDA_FOLDERS}};
  LOCKSTEP_FUNCTION(cudnnGetVersion);
  LOCKSTEP_FUNCTION(cudnnCreate);
  LOCKSTEP_FUNCTION(cudnnDestroy);
  LOCKSTEP_FUNCTION(cudnnSetStream);
  LOCKSTEP_FUNCTION(cudnnGetErrorString);
  LOCKSTEP_FUNCTION(cudnnGetLastErrorString);
  LOCKSTEP_FUNCTION(cudnnBackendCreateDescriptor);
  LOCKSTEP_FUNCTION(cudnnBackendDestroyDescriptor);
  LOCKSTEP_FUNCTION(cudnnBackendFinalize);
  LOCKSTEP_FUNCTION(cudnnBackendSetAttribute);
  LOCKSTEP_FUNCTION(cudnnBackendGetAttribute);
  LOCKSTEP_FUNCTION(cudnnBackendExecute);
};

const Cublas& cublas() {
  static const Cublas functions;
  return functions;
}
const Cudnn& cudnn() {
  static const Cudnn functions;
  return functions;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  return cublas().cublasCreate_v2(handle);
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return cublas().cublasDestroy_v2(handle);
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return cublas().cublasSetStream_v2(handle, stream);
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return cublas().cublasSetMathMode(handle, mode);
}
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  return cublas().cublasGetProperty(type, value);
}
const char* cublasGetStatusName(cublasStatus_t status) {
  return cublas().cublasGetStatusName(status);
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return cublas().cublasGetStatusString(status);
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return cublas().cublasGemmEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, a_type, lda, b, b_type,
                               ldb, beta, c, c_type, ldc, compute, algorithm);
}

std::size_t cudnnGetVersion() {
  return cudnn().cudnnGetVersion();
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return cudnn().cudnnCreate(handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return cudnn().cudnnDestroy(handle);
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return cudnn().cudnnSetStream(handle, stream);
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return cudnn().cudnnGetErrorString(status);
}
void cudnnGetLastErrorString(char* text, std::size_t size) {
  return cudnn().cudnnGetLastErrorString(text, size);
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  return cudnn().cudnnBackendCreateDescriptor(type, descriptor);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return cudnn().cudnnBackendDestroyDescriptor(descriptor);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return cudnn().cudnnBackendFinalize(descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  return cudnn().cudnnBackendSetAttribute(descriptor, name, type, count, values);
}
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       std::int64_t wanted, std::int64_t* count, void* values) {
  return cudnn().cudnnBackendGetAttribute(descriptor, name, type, wanted, count, values);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return cudnn().cudnnBackendExecute(handle, plan, pack);
}

}  // extern "C"
