// The parts of a linear layer that a matrix product does not do.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

// y[n,o] = product[n,o] + bias[o], rounded once to y's type: a product that is rounded before the bias is
// added is wrong in all digits where the two cancel. Mapping: a thread an element (a layer has tens to
// thousands of outputs, which rarely divide by a vector). An element is read before it is written, by the
// same thread: y may be product. Bytes an element: reads 4, writes 4 (f32) or 2. Deterministic.
template <class T>
__global__ void linear_bias_forward_kernel(const float* product, const float* bias, T* y,
                                           std::int64_t outputs, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  convert(product[i] + bias[i % outputs], y[i]);
}

constexpr int kColumns = 32;
constexpr int kRows = kThreads / kColumns;

// dbias[o] = sum over n of dy[n,o], stored or added by mode. Mapping: a block kColumns columns; kRows threads
// of each column take rows in turn, then add up as a tree. Bytes: reads dy once. Deterministic.
template <class T>
__global__ void linear_bias_backward_kernel(const T* dy, float* dbias, std::int64_t rows,
                                            std::int64_t outputs, bool accumulate) {
  static __shared__ float sums[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + thread % kColumns;
  float sum = 0.0f;
  if (column < outputs) {
    for (std::int64_t n = thread / kColumns; n < rows; n += kRows) sum += to_float(dy[n * outputs + column]);
  }
  sums[thread] = sum;
  for (int distance = kThreads / 2; distance >= kColumns; distance /= 2) {
    __syncthreads();
    if (thread < distance) sums[thread] += sums[thread + distance];
  }
  if (thread >= kColumns || column >= outputs) return;
  dbias[column] = accumulate ? dbias[column] + sums[thread] : sums[thread];
}

template <class T>
void forward(Stream& stream, const TensorView& product, const TensorView& bias, const TensorView& y) {
  launch("linear_bias_forward_kernel", stream, blocks_for(y.numel(), kThreads), kThreads,
         linear_bias_forward_kernel<T>, product.as<float>(), bias.as<float>(), static_cast<T*>(y.data),
         y.shape[1], y.numel());
}

template <class T>
void backward(Stream& stream, const TensorView& dy, const TensorView& dbias, GradMode mode) {
  launch("linear_bias_backward_kernel", stream, blocks_for(dy.shape[1], kColumns), kThreads,
         linear_bias_backward_kernel<T>, static_cast<const T*>(dy.data), dbias.as<float>(), dy.shape[0],
         dy.shape[1], mode == GradMode::accumulate);
}

}  // namespace

void linear_bias_forward(Stream& stream, const TensorView& product, const TensorView& bias,
                         const TensorView& y) {
  LOCKSTEP_CHECK(product.shape == y.shape, "linear_bias_forward: product is {}, y {}",
                 product.shape.to_string(), y.shape.to_string());
  y.dtype == DType::f32 ? forward<float>(stream, product, bias, y)
                        : forward<__nv_bfloat16>(stream, product, bias, y);
}

void linear_bias_backward(Stream& stream, const TensorView& dy, const TensorView& dbias, GradMode mode) {
  dy.dtype == DType::f32 ? backward<float>(stream, dy, dbias, mode)
                         : backward<__nv_bfloat16>(stream, dy, dbias, mode);
}

}  // namespace lockstep::cuda
