// cuBLAS and cuDNN are loaded when the first of their functions is called. Linked, they would cost every
// start of every program a tenth of a second and 600 MB of address space, and no program would start where
// they are missing.
//
// Each function here stands for the one of the same name in the library.
#include <cublas_v2.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <string>

#include "core/error.h"

namespace {

#define LOCKSTEP_TEXT_OF(x) #x
#define LOCKSTEP_TEXT(x) LOCKSTEP_TEXT_OF(x)
constexpr const char* kCublas = "libcublas.so." LOCKSTEP_TEXT(CUBLAS_VER_MAJOR);
constexpr const char* kCudnn = "libcudnn.so." LOCKSTEP_TEXT(CUDNN_MAJOR);

// By the system's search path, or where it lay when this was built.
void* load(const char* library) {
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr)
    loaded = dlopen((std::string(LOCKSTEP_CUDA_LIBRARIES "/") + library).c_str(), RTLD_NOW);
  if (loaded == nullptr) {
    lockstep::fail(lockstep::ExitCode::device,
                   "--device cuda needs {}, which cannot be loaded ({}). Install it, or name its folder in "
                   "LD_LIBRARY_PATH; --device cpu runs without it",
                   library, dlerror());
  }
  return loaded;
}

void* cublas() {
  static void* const library = load(kCublas);
  return library;
}
void* cudnn() {
  static void* const library = load(kCudnn);
  return library;
}

// The library's function of that name, with the type of ours.
template <class Function>
Function* in(void* library, Function* /*ours*/, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr)
    lockstep::fail(lockstep::ExitCode::device, "{} is not in NVIDIA's library: {}", name, dlerror());
  return reinterpret_cast<Function*>(found);
}

}  // namespace

// NAME(arguments) of a library; looked up once.
#define LOCKSTEP_CALL(library, name, ...)                         \
  static auto* const real_function = in(library(), &name, #name); \
  return real_function(__VA_ARGS__)

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  LOCKSTEP_CALL(cublas, cublasCreate_v2, handle);
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  LOCKSTEP_CALL(cublas, cublasDestroy_v2, handle);
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  LOCKSTEP_CALL(cublas, cublasSetStream_v2, handle, stream);
}
const char* cublasGetStatusName(cublasStatus_t status) {
  LOCKSTEP_CALL(cublas, cublasGetStatusName, status);
}
const char* cublasGetStatusString(cublasStatus_t status) {
  LOCKSTEP_CALL(cublas, cublasGetStatusString, status);
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  // Overloaded in the header: this is the one that the library has.
  using Function =
      cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                     const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*,
                     cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
  static auto* const real_function = in<Function>(cublas(), nullptr, "cublasGemmEx");
  return real_function(handle, transpose_a, transpose_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta,
                       c, c_type, ldc, compute, algorithm);
}

std::size_t cudnnGetVersion() {
  LOCKSTEP_CALL(cudnn, cudnnGetVersion);
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  LOCKSTEP_CALL(cudnn, cudnnCreate, handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  LOCKSTEP_CALL(cudnn, cudnnDestroy, handle);
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  LOCKSTEP_CALL(cudnn, cudnnSetStream, handle, stream);
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  LOCKSTEP_CALL(cudnn, cudnnGetErrorString, status);
}
void cudnnGetLastErrorString(char* text, std::size_t size) {
  LOCKSTEP_CALL(cudnn, cudnnGetLastErrorString, text, size);
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  LOCKSTEP_CALL(cudnn, cudnnBackendCreateDescriptor, type, descriptor);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  LOCKSTEP_CALL(cudnn, cudnnBackendDestroyDescriptor, descriptor);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  LOCKSTEP_CALL(cudnn, cudnnBackendFinalize, descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  LOCKSTEP_CALL(cudnn, cudnnBackendSetAttribute, descriptor, name, type, count, values);
}
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       std::int64_t wanted, std::int64_t* count, void* values) {
  LOCKSTEP_CALL(cudnn, cudnnBackendGetAttribute, descriptor, name, type, wanted, count, values);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  LOCKSTEP_CALL(cudnn, cudnnBackendExecute, handle, plan, pack);
}

}  // extern "C"
