// Stands in for NVIDIA's <cuda_runtime.h> where kernels run on the CPU: g++ compiles a .cu file as C++ with
// this folder in front of the toolkit's. Types and the runtime's functions are NVIDIA's own
// (<cuda_runtime_api.h>); what nvcc would know by itself, the built-ins of device code and the launch
// template, is declared here and implemented by simt.cpp and runtime_*.cpp.
//
// Kernels keep to: `static __shared__ T name[N];`, dynamic shared memory by cudasim's convention of none,
// launches by cudaLaunchKernelEx, and the built-ins below.
#pragma once

#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#undef __shared__
#undef __constant__
#undef __launch_bounds__
#ifdef __SANITIZE_ADDRESS__
#define __shared__  // a variable in a named section would get no red zones
#else
#define __shared__ __attribute__((section("cudasim_shared")))  // filled with NaN before each block
#endif
#define __constant__
#define __launch_bounds__(...)

// What nvcc was told to compile for.
#define __CUDA_ARCH_LIST__ 900

// Of the CUDA thread that runs.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace cudasim {

// Scheduling points of a CUDA thread; `where` tells two barriers in the source apart.
void block_barrier(const void* where);
void warp_barrier(unsigned mask, const void* where);
// Each lane of the mask gives a value and gets that of lane `source`; source < 0: its own.
std::uint64_t warp_exchange(unsigned mask, std::uint64_t value, int source, const void* where);
unsigned warp_ballot(unsigned mask, bool predicate, const void* where);
int lane();

cudaError_t launch(const cudaLaunchConfig_t* config, const char* name, std::function<void()> body);

template <class T>
T shuffle(unsigned mask, T value, int source, const void* where) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_exchange(mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace cudasim

// Not inlined, so that the return address is the place in the kernel.
#define CUDASIM_DEVICE __attribute__((noinline))
#define CUDASIM_HERE __builtin_return_address(0)

CUDASIM_DEVICE inline void __syncthreads() {
  cudasim::block_barrier(CUDASIM_HERE);
}
CUDASIM_DEVICE inline void __syncwarp(unsigned mask = 0xffffffffu) {
  cudasim::warp_barrier(mask, CUDASIM_HERE);
}
template <class T>
CUDASIM_DEVICE T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const int lane = cudasim::lane();
  return cudasim::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), CUDASIM_HERE);
}
template <class T>
CUDASIM_DEVICE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = cudasim::lane(), source = lane + static_cast<int>(delta);
  return cudasim::shuffle(mask, value, source > (lane | (width - 1)) ? -1 : source, CUDASIM_HERE);
}
template <class T>
CUDASIM_DEVICE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = cudasim::lane(), source = lane - static_cast<int>(delta);
  return cudasim::shuffle(mask, value, source < (lane & ~(width - 1)) ? -1 : source, CUDASIM_HERE);
}
template <class T>
CUDASIM_DEVICE T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize) {
  const int lane = cudasim::lane(), source = lane ^ bits;
  return cudasim::shuffle(mask, value, source > (lane | (width - 1)) ? -1 : source, CUDASIM_HERE);
}
CUDASIM_DEVICE inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return cudasim::warp_ballot(mask, predicate != 0, CUDASIM_HERE);
}
CUDASIM_DEVICE inline int __any_sync(unsigned mask, int predicate) {
  return cudasim::warp_ballot(mask, predicate != 0, CUDASIM_HERE) != 0;
}
CUDASIM_DEVICE inline int __all_sync(unsigned mask, int predicate) {
  return cudasim::warp_ballot(mask, predicate != 0, CUDASIM_HERE) == mask;
}
inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// One CUDA thread runs at a time: atomic for ThreadSanitizer, which takes them for threads.
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref(*at).exchange(value, std::memory_order_relaxed);
}

template <class T>
T __ldg(const T* at) {
  return *at;
}
inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
inline double rsqrt(double x) {
  return 1.0 / std::sqrt(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline unsigned __float_as_uint(float x) {
  return __builtin_bit_cast(unsigned, x);
}
inline int __float_as_int(float x) {
  return __builtin_bit_cast(int, x);
}
inline float __uint_as_float(unsigned x) {
  return __builtin_bit_cast(float, x);
}
inline float __int_as_float(int x) {
  return __builtin_bit_cast(float, x);
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
template <class T>
constexpr T min(T a, std::type_identity_t<T> b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, std::type_identity_t<T> b) {
  return a < b ? b : a;
}

// As NVIDIA's template of the same name: the arguments are converted and copied when the kernel is launched.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  std::tuple<std::decay_t<Parameters>...> copies(
      static_cast<Parameters>(std::forward<Arguments>(arguments))...);
  return cudasim::launch(config, __PRETTY_FUNCTION__, [kernel, copies] { std::apply(kernel, copies); });
}
