// ReLU as an op of its own. In a ResNet nearly all of them are fused into batch norm.
#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

// y = x < 0 ? 0 : x, so that a NaN stays. Mapping: a thread has one vector of 16 bytes; the thread of the
// last, partial vector goes element by element. Bytes: reads and writes each element once. Deterministic: no
// element depends on another.
template <class T>
__global__ void relu_forward_kernel(const T* x, T* y, std::int64_t count) {
  constexpr int kSize = Vector<T>::kSize;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
  if (first + kSize <= count) {
    Vector<T> vector = load_vector(x + first);
    for (T& value : vector.values) convert(to_float(value) < 0.0f ? 0.0f : to_float(value), value);
    store_vector(y + first, vector);
    return;
  }
  for (std::int64_t i = first; i < count; ++i) convert(to_float(x[i]) < 0.0f ? 0.0f : to_float(x[i]), y[i]);
}

// dx = y > 0 ? dy : 0. Mapping and determinism as above. Bytes: reads y and dy, writes dx.
template <class T>
__global__ void relu_backward_kernel(const T* y, const T* dy, T* dx, std::int64_t count) {
  constexpr int kSize = Vector<T>::kSize;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
  if (first + kSize <= count) {
    const Vector<T> output = load_vector(y + first);
    Vector<T> gradient = load_vector(dy + first);
    for (int i = 0; i < kSize; ++i) {
      if (!(to_float(output.values[i]) > 0.0f)) convert(0.0f, gradient.values[i]);
    }
    store_vector(dx + first, gradient);
    return;
  }
  for (std::int64_t i = first; i < count; ++i) convert(to_float(y[i]) > 0.0f ? to_float(dy[i]) : 0.0f, dx[i]);
}

template <class T>
void forward(Stream& stream, const TensorView& x, const TensorView& y) {
  launch("relu_forward_kernel", stream, blocks_for(x.numel(), kThreads * Vector<T>::kSize), kThreads,
         relu_forward_kernel<T>, device_pointer<T>("relu_forward", x), device_pointer<T>("relu_forward", y),
         x.numel());
}

template <class T>
void backward(Stream& stream, const TensorView& y, const TensorView& dy, const TensorView& dx) {
  launch("relu_backward_kernel", stream, blocks_for(y.numel(), kThreads * Vector<T>::kSize), kThreads,
         relu_backward_kernel<T>, device_pointer<T>("relu_backward", y),
         device_pointer<T>("relu_backward", dy), device_pointer<T>("relu_backward", dx), y.numel());
}

}  // namespace

void relu_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  contract::relu_forward(x, y);
  with_compute_type(x.dtype, [&](auto type) { forward<decltype(type)>(stream, x, y); });
}

void relu_backward(Stream& stream, const TensorView& y, const TensorView& dy, const TensorView& dx) {
  contract::relu_backward(y, dy, dx);
  with_compute_type(y.dtype, [&](auto type) { backward<decltype(type)>(stream, y, dy, dx); });
}

}  // namespace lockstep::cuda
