// Random crop, flip and normalisation of uint8 pictures, keyed by (seed, epoch, sample).
#include "core/rng.h"
#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

// y[n,p,q,c] = (pixel/255 - mean[c]) * inverse_deviation[c]; pixel is images[samples[n], c, p+dy, q'+dx], or
// 0 outside of the picture, where q' is q or, flipped, width-1-q. Mapping: a block a sample, a thread a pixel
// at a time with its three channels. Every thread draws the crop itself: a hundred integer instructions are
// cheaper than a barrier. Bytes a pixel: reads 3, writes 12 (f32) or 6 (bf16, f16). Deterministic: a picture
// depends on its sample alone.
template <class T>
__global__ void augment_normalize_kernel(AugmentOptions options, std::uint32_t random_stream,
                                         const std::uint8_t* images, const std::int32_t* samples,
                                         const std::int32_t* epoch, int height, int width, T* y) {
  const std::int64_t sample = samples[blockIdx.x];
  int shift_y = 0, shift_x = 0;
  bool flip = false;
  if (options.train) {
    const PhiloxBlock random = philox_block(options.seed, random_stream, static_cast<std::uint64_t>(*epoch),
                                            static_cast<std::uint64_t>(sample));
    const int padding = static_cast<int>(options.padding);
    const auto offsets = static_cast<std::uint32_t>(2 * padding + 1);
    shift_y = static_cast<int>(random.words[0] % offsets) - padding;
    shift_x = static_cast<int>(random.words[1] % offsets) - padding;
    flip = (random.words[2] & 1u) != 0;
  }
  const int pixels = height * width;
  const std::uint8_t* image = images + sample * 3 * pixels;
  T* result = y + static_cast<std::int64_t>(blockIdx.x) * 3 * pixels;
  for (int pixel = static_cast<int>(threadIdx.x); pixel < pixels; pixel += static_cast<int>(blockDim.x)) {
    const int row = pixel / width + shift_y;
    const int q = pixel % width;
    const int column = (flip ? width - 1 - q : q) + shift_x;
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    for (int c = 0; c < 3; ++c) {
      const float value = inside ? static_cast<float>(image[c * pixels + row * width + column]) : 0.0f;
      convert((value * (1.0f / 255.0f) - options.mean[c]) * options.inverse_deviation[c],
              result[pixel * 3 + c]);
    }
  }
}

template <class T>
void run(Stream& stream, const AugmentOptions& options, const TensorView& images, const TensorView& samples,
         const TensorView& epoch, const TensorView& y) {
  launch("augment_normalize_kernel", stream, blocks_for(samples.shape[0], 1), kThreads,
         augment_normalize_kernel<T>, options, static_cast<std::uint32_t>(RandomStream::augment),
         images.as<std::uint8_t>(), samples.as<std::int32_t>(),
         options.train ? epoch.as<std::int32_t>() : nullptr, static_cast<int>(images.shape[2]),
         static_cast<int>(images.shape[3]), static_cast<T*>(y.data));
}

}  // namespace

void augment_normalize(Stream& stream, const AugmentOptions& options, const TensorView& images,
                       const TensorView& samples, const TensorView& epoch, const TensorView& y) {
  contract::augment_normalize(options, images, samples, epoch, y);
  with_compute_type(y.dtype,
                    [&](auto type) { run<decltype(type)>(stream, options, images, samples, epoch, y); });
}

}  // namespace lockstep::cuda
