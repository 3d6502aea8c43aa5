// Random crop, flip and normalisation of uint8 pictures, keyed by (seed, epoch, sample).
#include "core/rng.h"
#include "kernels/cpu/ops.h"

namespace lockstep::cpu {
namespace {

struct Crop {
  std::int64_t dy, dx;  // of the output's corner, in the original picture
  bool flip;
};

Crop crop_of(const AugmentOptions& options, const TensorView& epoch, std::int64_t sample) {
  if (!options.train) return {0, 0, false};
  const Philox random(options.seed, RandomStream::augment);
  const auto words = random.block(static_cast<std::uint64_t>(epoch.as<std::int32_t>()[0]),
                                  static_cast<std::uint64_t>(sample));
  const std::int64_t offsets = 2 * options.padding + 1;
  return {words[0] % offsets - options.padding, words[1] % offsets - options.padding, (words[2] & 1u) != 0};
}

// A pixel has 256 values, so a table a channel holds all results, rounded once.
template <class T>
struct Table {
  explicit Table(const AugmentOptions& options) {
    for (int c = 0; c < 3; ++c) {
      for (int pixel = 0; pixel < 256; ++pixel) {
        const double value = (pixel / 255.0 - static_cast<double>(options.mean[c])) *
                             static_cast<double>(options.inverse_deviation[c]);
        values[c][pixel] = T(static_cast<float>(value));
      }
    }
  }
  T values[3][256];
};

template <class T>
void augment_one(const Table<T>& table, const Crop& crop, std::int64_t height, std::int64_t width,
                 const std::uint8_t* image, T* y) {
  for (std::int64_t p = 0; p < height; ++p) {
    const std::int64_t row = p + crop.dy;
    for (std::int64_t q = 0; q < width; ++q) {
      const std::int64_t column = (crop.flip ? width - 1 - q : q) + crop.dx;
      const bool padding = row < 0 || row >= height || column < 0 || column >= width;
      for (std::int64_t c = 0; c < 3; ++c) {
        const std::uint8_t pixel = padding ? std::uint8_t{0} : image[(c * height + row) * width + column];
        y[(p * width + q) * 3 + c] = table.values[c][pixel];
      }
    }
  }
}

}  // namespace

void augment_normalize(Machine& machine, const AugmentOptions& options, const TensorView& images,
                       const TensorView& samples, const TensorView& epoch, const TensorView& y) {
  const std::int64_t count = images.shape[0], height = images.shape[2], width = images.shape[3];
  const std::int32_t* picked = samples.as<std::int32_t>();
  for (std::int64_t n = 0; n < samples.numel(); ++n) {
    LOCKSTEP_CHECK(picked[n] >= 0 && picked[n] < count, "augment_normalize: samples[{}] is {}, images {}", n,
                   picked[n], count);
  }
  with_compute_type(y.dtype, [&](auto type) {
    using T = decltype(type);
    const Table<T> table(options);
    machine.threads.split(samples.numel(), 1, y.bytes(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        augment_one(table, crop_of(options, epoch, picked[n]), height, width,
                    images.as<std::uint8_t>() + picked[n] * 3 * height * width,
                    y.as<T>() + n * height * width * 3);
      }
    });
  });
}

}  // namespace lockstep::cpu
