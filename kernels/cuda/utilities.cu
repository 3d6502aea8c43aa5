// Conversion between compute types, the search for NaN and infinity, and what depends on it.
#include <cfloat>

#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kPerThread = 8;  // one 16-byte access of a 2-byte type, two of f32

// y = x, rounded to nearest even; NaN stays NaN. Mapping: a thread has kPerThread consecutive elements; the
// last thread of a range that does not divide goes element by element. Bytes: reads x, writes y, once.
// Deterministic.
template <class From, class To>
__global__ void cast_kernel(const From* x, To* y, std::int64_t count) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kPerThread;
  if (first + kPerThread > count) {
    for (std::int64_t i = first; i < count; ++i) convert(to_float(x[i]), y[i]);
    return;
  }
  alignas(16) To result[kPerThread];
  for (int part = 0; part < kPerThread; part += Vector<From>::kSize) {
    const Vector<From> vector = load_vector(x + first + part);
    for (int i = 0; i < Vector<From>::kSize; ++i) convert(to_float(vector.values[i]), result[part + i]);
  }
  for (int part = 0; part < kPerThread; part += Vector<To>::kSize) {
    store_vector(y + first + part, load_vector(result + part));
  }
}

__device__ __forceinline__ bool is_finite(float value) {
  return fabsf(value) <= FLT_MAX;  // false for a NaN
}

// flag = 1 if x holds a NaN or an infinity. Mapping: a thread has one vector of 16 bytes, the last of a range
// that does not divide fewer elements. Bytes: reads x once. Deterministic: all that write, write 1.
template <class T>
__global__ void non_finite_check_kernel(const T* x, float* flag, std::int64_t count) {
  constexpr int kSize = Vector<T>::kSize;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kSize;
  bool finite = true;
  if (first + kSize <= count) {
    const Vector<T> vector = load_vector(x + first);
    for (const T& value : vector.values) finite = finite && is_finite(to_float(value));
  } else {
    for (std::int64_t i = first; i < count; ++i) finite = finite && is_finite(to_float(x[i]));
  }
  if (!finite) atomicExch(flag, 1.0f);
}

// y = x where *flag is above 0. Mapping: a thread has one vector of 16 bytes, the last of a range that does
// not divide fewer elements. Bytes: none, or reads x and writes y once. Deterministic.
__global__ void copy_if_kernel(const float* flag, const float* x, float* y, std::int64_t count) {
  if (!(*flag > 0)) return;
  constexpr int kSize = Vector<float>::kSize;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kSize;
  if (first + kSize <= count) return store_vector(y + first, load_vector(x + first));
  for (std::int64_t i = first; i < count; ++i) y[i] = x[i];
}

template <class From, class To>
void convert_all(Stream& stream, const TensorView& x, const TensorView& y) {
  launch("cast_kernel", stream, blocks_for(x.numel(), kThreads * kPerThread), kThreads, cast_kernel<From, To>,
         device_pointer<From>("cast", x), device_pointer<To>("cast", y), x.numel());
}

template <class T>
void check(Stream& stream, const TensorView& x, const TensorView& flag) {
  launch("non_finite_check_kernel", stream, blocks_for(x.numel(), kThreads * Vector<T>::kSize), kThreads,
         non_finite_check_kernel<T>, device_pointer<T>("non_finite_check", x), flag.as<float>(), x.numel());
}

}  // namespace

void cast(Stream& stream, const TensorView& x, const TensorView& y) {
  contract::cast(x, y);
  with_compute_type(x.dtype, [&](auto from) {
    with_compute_type(y.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      if constexpr (!std::is_same_v<From, To>) convert_all<From, To>(stream, x, y);
    });
  });
}

void non_finite_check(Stream& stream, const TensorView& x, const TensorView& flag) {
  contract::non_finite_check(x, flag);
  with_compute_type(x.dtype, [&](auto type) { check<decltype(type)>(stream, x, flag); });
}

void copy_if(Stream& stream, const TensorView& flag, const TensorView& x, const TensorView& y) {
  contract::copy_if(flag, x, y);
  launch("copy_if_kernel", stream, blocks_for(x.numel(), kThreads * Vector<float>::kSize), kThreads,
         copy_if_kernel, flag.as<float>(), device_pointer<float>("copy_if", x),
         device_pointer<float>("copy_if", y), x.numel());
}

}  // namespace lockstep::cuda
