// y = x w^T + bias and its gradients: the products are cuBLAS's, bias and its gradient are kernels.
#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/machine.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

// y = product + bias. Mapping: a thread an element. Bytes: reads 4 (and the bias, from the cache), writes one
// element of y. Deterministic.
template <class T>
__global__ void add_bias_kernel(const float* product, const float* bias, T* y, std::int64_t count, int out) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) convert(product[i] + bias[i % out], y[i]);
}

// dbias (+)= column sums of dy. Mapping: a thread a column, rows in order, so neighbours read together.
// Bytes: reads dy once. Deterministic.
template <class T>
__global__ void bias_gradient_kernel(const T* dy, float* dbias, std::int64_t rows, int out, bool accumulate) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= out) return;
  float sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) sum += to_float(dy[row * out + column]);
  dbias[column] = accumulate ? dbias[column] + sum : sum;
}

cudaDataType_t type_of(const TensorView& view) {
  return view.dtype == DType::bf16 ? CUDA_R_16BF : view.dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

// A matrix as cuBLAS takes it: by columns, so what lies in memory by rows is its transpose.
struct Operand {
  const TensorView& view;
  cublasOperation_t operation;
};

// c (+)= a b, all by columns: c is m x n, the sums have k terms. Sums are f32.
void multiply(cublasHandle_t handle, Precision precision, int m, int n, int k, const Operand& a,
              const Operand& b, void* c, cudaDataType_t c_type, bool accumulate) {
  const float one = 1, zero = 0;
  const bool tf32 = precision == Precision::tf32 && a.view.dtype == DType::f32;
  const auto leading = [](const TensorView& view) { return static_cast<int>(view.shape[1]); };
  CUBLAS_CHECK(cublasGemmEx(handle, a.operation, b.operation, m, n, k, &one, a.view.data, type_of(a.view),
                            leading(a.view), b.view.data, type_of(b.view), leading(b.view),
                            accumulate ? &one : &zero, c, c_type, m,
                            tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

int size(const TensorView& view, int dimension) {
  return static_cast<int>(view.shape[dimension]);
}

template <class T>
void add_bias(Stream& stream, const float* product, const TensorView& bias, const TensorView& y) {
  launch("add_bias_kernel", stream, blocks_for(y.numel(), kThreads), kThreads, add_bias_kernel<T>, product,
         bias.as<float>(), static_cast<T*>(y.data), y.numel(), size(y, 1));
}

template <class T>
void bias_gradient(Stream& stream, const TensorView& dy, const TensorView& dbias, GradMode mode) {
  launch("bias_gradient_kernel", stream, blocks_for(dy.shape[1], kThreads), kThreads, bias_gradient_kernel<T>,
         static_cast<const T*>(dy.data), dbias.as<float>(), dy.shape[0], size(dy, 1),
         mode == GradMode::accumulate);
}

}  // namespace

void linear_forward(Machine& machine, Stream& stream, const TensorView& x, const TensorView& w,
                    const TensorView& bias, const TensorView& y) {
  contract::linear_forward(x, w, bias, y);
  auto* product = machine.workspace.array<float>(Area::product, y.numel());
  multiply(machine.cublas.on("linear_forward", stream), machine.precision, size(y, 1), size(y, 0), size(x, 1),
           {w, CUBLAS_OP_T}, {x, CUBLAS_OP_N}, product, CUDA_R_32F, false);
  with_compute_type(y.dtype, [&](auto type) { add_bias<decltype(type)>(stream, product, bias, y); });
}

void linear_backward_data(Machine& machine, Stream& stream, const TensorView& dy, const TensorView& w,
                          const TensorView& dx) {
  contract::linear_backward_data(dy, w, dx);
  multiply(machine.cublas.on("linear_backward_data", stream), machine.precision, size(dx, 1), size(dx, 0),
           size(dy, 1), {w, CUBLAS_OP_N}, {dy, CUBLAS_OP_N}, dx.data, type_of(dx), false);
}

void linear_backward_weight(Machine& machine, Stream& stream, const TensorView& x, const TensorView& dy,
                            const TensorView& dw, const TensorView& dbias, GradMode mode) {
  contract::linear_backward_weight(x, dy, dw, dbias);
  multiply(machine.cublas.on("linear_backward_weight", stream), machine.precision, size(x, 1), size(dy, 1),
           size(x, 0), {x, CUBLAS_OP_N}, {dy, CUBLAS_OP_T}, dw.data, CUDA_R_32F,
           mode == GradMode::accumulate);
  with_compute_type(dy.dtype, [&](auto type) { bias_gradient<decltype(type)>(stream, dy, dbias, mode); });
}

}  // namespace lockstep::cuda
