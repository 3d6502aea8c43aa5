// Channels rounded up to whole vectors: what a convolution of few channels reads where that is faster.
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

// y[row][c] = x[row][c], 0 for c >= channels. Mapping: a thread a vector of y, neighbours together. Bytes a
// row: reads `channels` elements, writes `padded`, once. Deterministic.
template <class T>
__global__ void pad_channels_kernel(const T* x, T* y, std::int64_t rows, int channels, int padded) {
  constexpr int kSize = Vector<T>::kSize;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int vectors = padded / kSize;
  if (i >= rows * vectors) return;
  const std::int64_t row = i / vectors;
  const int first = static_cast<int>(i % vectors) * kSize;
  Vector<T> vector;
  for (int v = 0; v < kSize; ++v) {
    if (first + v < channels) {
      vector.values[v] = x[row * channels + first + v];
    } else {
      convert(0.0f, vector.values[v]);
    }
  }
  store_vector(y + i * kSize, vector);
}

}  // namespace

void pad_channels(Stream& stream, DType type, const void* x, void* y, std::int64_t rows,
                  std::int64_t channels, std::int64_t padded) {
  with_compute_type(type, [&](auto element) {
    using T = decltype(element);
    launch("pad_channels_kernel", stream, blocks_for(rows * (padded / Vector<T>::kSize), kThreads), kThreads,
           pad_channels_kernel<T>, static_cast<const T*>(x), static_cast<T*>(y), rows,
           static_cast<int>(channels), static_cast<int>(padded));
  });
}

}  // namespace lockstep::cuda
