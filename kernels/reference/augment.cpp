// Random crop, flip and normalisation of uint8 pictures, keyed by (seed, epoch, sample).
#include "core/rng.h"
#include "kernels/reference/numeric.h"
#include "kernels/reference/ops.h"

namespace lockstep::reference {
namespace {

struct Crop {
  std::int64_t dy, dx;  // of the output's corner, in the original picture
  bool flip;
};

// The window begins somewhere in the padded picture, whose corner lies `padding` outside of the original.
Crop crop_of(const AugmentOptions& options, const TensorView& epoch, std::int64_t sample) {
  if (!options.train) return {0, 0, false};
  const Philox random(options.seed, RandomStream::augment);
  const auto words = random.block(static_cast<std::uint64_t>(epoch.as<std::int32_t>()[0]),
                                  static_cast<std::uint64_t>(sample));
  const std::int64_t offsets = 2 * options.padding + 1;
  return {words[0] % offsets - options.padding, words[1] % offsets - options.padding, (words[2] & 1u) != 0};
}

}  // namespace

void augment_normalize(const AugmentOptions& options, const TensorView& images, const TensorView& samples,
                       const TensorView& epoch, const TensorView& y) {
  const std::int64_t count = images.shape[0], height = images.shape[2], width = images.shape[3];
  with_compute_type(y.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t n = 0; n < samples.shape[0]; ++n) {
      const std::int64_t sample = samples.as<std::int32_t>()[n];
      LOCKSTEP_CHECK(sample >= 0 && sample < count, "augment_normalize: samples[{}] is {}, images {}", n,
                     sample, count);
      const Crop crop = crop_of(options, epoch, sample);
      const std::uint8_t* image = images.as<std::uint8_t>() + sample * 3 * height * width;
      for (std::int64_t p = 0; p < height; ++p) {
        for (std::int64_t q = 0; q < width; ++q) {
          const std::int64_t row = p + crop.dy;
          const std::int64_t column = (crop.flip ? width - 1 - q : q) + crop.dx;
          const bool padding = row < 0 || row >= height || column < 0 || column >= width;
          for (std::int64_t c = 0; c < 3; ++c) {
            const double pixel = padding ? 0.0 : image[(c * height + row) * width + column];
            const double value = (pixel / 255.0 - load(options.mean[c])) * load(options.inverse_deviation[c]);
            store(y.as<T>()[((n * height + p) * width + q) * 3 + c], value);
          }
        }
      }
    }
  });
}

}  // namespace lockstep::reference
