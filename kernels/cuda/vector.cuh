// 16-byte accesses, the widest that a thread can make, and the conversions of the compute types.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/error.h"
#include "core/tensor.h"

namespace lockstep::cuda {

// 16 bytes of elements, moved by one instruction.
template <class T>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

template <class T>
__device__ __forceinline__ Vector<T> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T>*>(from);
}

template <class T>
__device__ __forceinline__ void store_vector(T* to, const Vector<T>& vector) {
  *reinterpret_cast<Vector<T>*>(to) = vector;
}

__device__ __forceinline__ float to_float(float value) {
  return value;
}
__device__ __forceinline__ float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ __forceinline__ float to_float(__half value) {
  return __half2float(value);
}
__device__ __forceinline__ void convert(float value, float& to) {
  to = value;
}
__device__ __forceinline__ void convert(float value, __nv_bfloat16& to) {
  to = __float2bfloat16_rn(value);
}
__device__ __forceinline__ void convert(float value, __half& to) {
  to = __float2half_rn(value);
}

// V elements as floats: one 16-byte access where V is a vector's size, else V is 1.
template <int V, class T>
__device__ __forceinline__ void load_floats(const T* from, float (&to)[V]) {
  static_assert(V == 1 || V == Vector<T>::kSize);
  if constexpr (V == 1) {
    to[0] = to_float(*from);
  } else {
    const Vector<T> vector = load_vector(from);
    for (int i = 0; i < V; ++i) to[i] = to_float(vector.values[i]);
  }
}
template <int V, class T>
__device__ __forceinline__ void store_floats(T* to, const float (&values)[V]) {
  static_assert(V == 1 || V == Vector<T>::kSize);
  if constexpr (V == 1) {
    convert(values[0], *to);
  } else {
    Vector<T> vector;
    for (int i = 0; i < V; ++i) convert(values[i], vector.values[i]);
    store_vector(to, vector);
  }
}

// V floats of a channel vector, in 16-byte accesses where V is a multiple of four.
template <int V>
__device__ __forceinline__ void load_channels(const float* from, float (&to)[V]) {
  if constexpr (V % Vector<float>::kSize == 0) {
    for (int v = 0; v < V; v += Vector<float>::kSize) {
      const Vector<float> part = load_vector(from + v);
      for (int i = 0; i < Vector<float>::kSize; ++i) to[v + i] = part.values[i];
    }
  } else {
    for (int v = 0; v < V; ++v) to[v] = from[v];
  }
}

// Calls function(T{}) with the device's type of a compute type.
template <class Function>
void with_compute_type(DType type, const Function& function) {
  switch (type) {
    case DType::f32:
      return function(float{});
    case DType::bf16:
      return function(__nv_bfloat16{});
    case DType::f16:
      return function(__half{});
    default:
      fail(ExitCode::internal, "{} is not a type to compute in", name_of(type));
  }
}

// Calls function(T{}, width): width is how many channels, the last dimension, a thread takes at a time. A
// vector where the channels are whole vectors, else one.
template <class Function>
void with_type_and_width(const TensorView& view, const Function& function) {
  with_compute_type(view.dtype, [&](auto type) {
    constexpr int kSize = Vector<decltype(type)>::kSize;
    view.shape[view.shape.rank() - 1] % kSize == 0 ? function(type, std::integral_constant<int, kSize>{})
                                                   : function(type, std::integral_constant<int, 1>{});
  });
}

// The elements as the device's type, checked to start on 16 bytes.
template <class T>
T* device_pointer(const char* op, const TensorView& view) {
  LOCKSTEP_CHECK(reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0,
                 "{}: a tensor of {} does not start on 16 bytes", op, view.shape.to_string());
  return static_cast<T*>(view.data);
}

}  // namespace lockstep::cuda
