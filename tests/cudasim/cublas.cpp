// cuBLAS's double: the one product that the project calls, summed in double.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cudasim/state.h"
#include "cudasim/tf32.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
};

namespace {

double load(const void* data, cudaDataType type, std::int64_t index) {
  switch (type) {
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

void store(void* data, cudaDataType type, std::int64_t index, double value) {
  const auto rounded = static_cast<float>(value);
  switch (type) {
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(rounded);
      break;
    case CUDA_R_16F:
      static_cast<__half*>(data)[index] = __float2half_rn(rounded);
      break;
    default:
      static_cast<float*>(data)[index] = rounded;
  }
}

std::int64_t bytes_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : 2;
}
// A factor, as the compute type takes it.
double factor(const void* data, cudaDataType type, std::int64_t index, bool tf32) {
  const double value = load(data, type, index);
  return tf32 ? cudasim::to_tf32(static_cast<float>(value)) : value;
}
bool is_known(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
}

// A matrix by columns, rows x columns of them as stored, one after `leading` elements.
bool lies_on_device(const void* data, cudaDataType type, std::int64_t rows, std::int64_t columns,
                    std::int64_t leading) {
  return leading >= rows &&
         cudasim::is_device_memory(data, ((columns - 1) * leading + rows) * bytes_of(type));
}

}  // namespace

extern "C" {

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION   ? CUBLAS_VER_MAJOR
           : type == MINOR_VERSION ? CUBLAS_VER_MINOR
                                   : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INVALID_VALUE";
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return cublasGetStatusName(status);
}

// alpha and beta are read when the call is made, as with CUBLAS_POINTER_MODE_HOST.
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool ta = transpose_a != CUBLAS_OP_N, tb = transpose_b != CUBLAS_OP_N;
  const bool tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  // The real library would be free to add up parts of a sum in 16 bits.
  if (c_type != CUDA_R_32F && !(handle->mode & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m <= 0 || n <= 0 || k <= 0 || (compute != CUBLAS_COMPUTE_32F && !tf32) ||
      (tf32 && a_type != CUDA_R_32F) || a_type != b_type || !is_known(a_type) ||
      (c_type != CUDA_R_32F && c_type != a_type) || !lies_on_device(a, a_type, ta ? k : m, ta ? m : k, lda) ||
      !lies_on_device(b, b_type, tb ? n : k, tb ? k : n, ldb) || !lies_on_device(c, c_type, m, n, ldc)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const double scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  cudasim::enqueue(handle->stream, [=] {
    for (std::int64_t column = 0; column < n; ++column) {
      for (std::int64_t row = 0; row < m; ++row) {
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          sum += factor(a, a_type, ta ? row * lda + i : i * lda + row, tf32) *
                 factor(b, b_type, tb ? i * ldb + column : column * ldb + i, tf32);
        }
        const std::int64_t at = column * ldc + row;
        store(c, c_type, at, scale * sum + (keep == 0 ? 0 : keep * load(c, c_type, at)));
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
