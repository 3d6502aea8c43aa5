// The last step of a weight gradient that its plan did not sum in dw itself: dw, which is f32, takes or adds
// the sums.
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

// dw[row][c] (+)= sums[row][c], for c < channels of the `padded` that a row of sums has. Mapping: a thread an
// element of dw, neighbours together. Bytes an element: reads that of sums (and 4 of dw where it
// accumulates), writes 4. Deterministic.
template <class T>
__global__ void widen_weight_gradient_kernel(const T* sums, float* dw, std::int64_t count, int channels,
                                             int padded, bool accumulate) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float sum = to_float(sums[channels == padded ? i : i / channels * padded + i % channels]);
  dw[i] = accumulate ? dw[i] + sum : sum;
}

}  // namespace

void widen_weight_gradient(Stream& stream, DType type, const void* sums, float* dw, std::int64_t rows,
                           std::int64_t channels, std::int64_t padded, GradMode mode) {
  with_compute_type(type, [&](auto element) {
    using T = decltype(element);
    launch("widen_weight_gradient_kernel", stream, blocks_for(rows * channels, kThreads), kThreads,
           widen_weight_gradient_kernel<T>, static_cast<const T*>(sums), dw, rows * channels,
           static_cast<int>(channels), static_cast<int>(padded), mode == GradMode::accumulate);
  });
}

}  // namespace lockstep::cuda
