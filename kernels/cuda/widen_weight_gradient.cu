// The last step of a 16-bit weight gradient: dw, which is f32, takes or adds the rounded sums.
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

// dw[i] (+)= sums[i]. Mapping: a thread an element, neighbours together. Bytes an element: reads 2 (and 4 of
// dw where it accumulates), writes 4. Deterministic.
template <class T>
__global__ void widen_weight_gradient_kernel(const T* sums, float* dw, std::int64_t count, bool accumulate) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float sum = to_float(sums[i]);
  dw[i] = accumulate ? dw[i] + sum : sum;
}

template <class T>
void run(Stream& stream, const void* sums, float* dw, std::int64_t count, GradMode mode) {
  launch("widen_weight_gradient_kernel", stream, blocks_for(count, kThreads), kThreads,
         widen_weight_gradient_kernel<T>, static_cast<const T*>(sums), dw, count,
         mode == GradMode::accumulate);
}

}  // namespace

void widen_weight_gradient(Stream& stream, DType type, const void* sums, float* dw, std::int64_t count,
                           GradMode mode) {
  LOCKSTEP_CHECK(type == DType::bf16 || type == DType::f16, "{} is not a 16-bit type", name_of(type));
  if (type == DType::bf16) return run<__nv_bfloat16>(stream, sums, dw, count, mode);
  run<__half>(stream, sums, dw, count, mode);
}

}  // namespace lockstep::cuda
