#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

#include "core/rng.h"
#include "data/dataset.h"
#include "data/figures.h"
#include "data/pixel_memory.h"

namespace lockstep {

namespace {

constexpr std::int64_t kTrain = 10000, kTest = 2000;
// Substreams of the seed: one a picture from 0, the training pictures first; one for the order of the labels.
constexpr std::uint64_t kLabelSubstream = std::uint64_t{1} << 32;
// Picture parameters use blocks from 0, its noise from here on.
constexpr std::uint64_t kNoiseBlock = 1024;

// Pictures of 100 whose figure is lighter than its ground.
constexpr std::int32_t kLightFigures = 75;

// The words of one substream in order.
class Words {
 public:
  Words(const Philox& philox, std::uint64_t substream) : philox_(philox), substream_(substream) {}
  std::uint32_t next() {
    if (used_ == 4) {
      block_ = philox_.block(substream_, index_++);
      used_ = 0;
    }
    return block_[used_++];
  }
  // Uniform in low..high, both included.
  std::int32_t between(std::int32_t low, std::int32_t high) {
    const auto range = static_cast<std::uint64_t>(high - low + 1);
    return low + static_cast<std::int32_t>((next() * range) >> 32);
  }

 private:
  const Philox& philox_;
  std::uint64_t substream_;
  std::uint64_t index_ = 0;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = 4;
};

// Cosines of whole degrees in 1/4096: rounding hides the last bits in which mathematical libraries differ.
class Degrees {
 public:
  Degrees() {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      const double angle = static_cast<double>(i) * std::numbers::pi / 180;
      table_[i] = static_cast<std::int32_t>(std::lround(4096 * std::cos(angle)));
    }
  }
  std::int32_t cosine(int degrees) const { return table_[static_cast<std::size_t>((degrees + 720) % 360)]; }
  std::int32_t sine(int degrees) const { return cosine(degrees - 90); }

 private:
  std::array<std::int32_t, 360> table_{};
};

struct Sizes {
  std::int32_t smallest, largest;          // in 1/256 of a pixel
  std::int32_t narrowest = 0, widest = 0;  // `width`, in 1/256 of the size
};

Sizes sizes_of(Figure figure) {
  switch (figure) {
    case Figure::disc:
      return {2200, 3000};
    case Figure::square:
      return {2000, 2700};
    case Figure::triangle:
      return {2900, 3800};
    case Figure::cross:
      return {2600, 3500, 64, 84};
    case Figure::ring:
      return {2100, 2900, 46, 70};
    case Figure::checker:
      return {2400, 3800};
    case Figure::dots:
      return {2000, 2800, 60, 78};
    default:
      return {1600, 2800};  // stripes
  }
}

// A figure leans by some degrees only, so that squares and triangles keep their directions.
int rotation_of(Figure figure, Words& words) {
  switch (figure) {
    case Figure::horizontal_stripes:
      return words.between(-12, 12);
    case Figure::vertical_stripes:
      return 90 + words.between(-12, 12);
    case Figure::diagonal_stripes:
      return (words.next() % 2 == 0 ? 45 : 135) + words.between(-12, 12);
    default:
      return words.between(-15, 15);
  }
}

FigureOptions choose_figure(Figure figure, const Degrees& degrees, Words& words) {
  FigureOptions options;
  options.figure = figure;
  const Sizes sizes = sizes_of(figure);
  options.size = words.between(sizes.smallest, sizes.largest);
  options.width = (options.size * words.between(sizes.narrowest, sizes.widest)) >> 8;
  const int rotation = rotation_of(figure, words);
  options.cosine = degrees.cosine(rotation);
  options.sine = degrees.sine(rotation);
  // Around the middle, and a large shape stays closer to it. A texture has no middle: this is its phase.
  const std::int32_t margin = std::max(4096 - options.size - 200, 400);
  options.center_x = 4096 + words.between(-margin, margin);
  options.center_y = 4096 + words.between(-margin, margin);
  return options;
}

struct Colours {
  std::array<std::int32_t, 3> ground{}, figure{};
};

// Mostly a light figure on a dark ground, as with many things in the world, but not always: a linear model,
// which can only weigh brightness at places, learns from the first and fails at the second.
Colours choose_colours(Words& words) {
  constexpr std::int32_t kLeastContrast = 72;
  const bool light_figure = words.between(1, 100) <= kLightFigures;
  Colours colours;
  std::int32_t contrast = 0;
  do {
    for (auto& value : colours.ground) value = words.between(0, 255);
    for (auto& value : colours.figure) value = words.between(0, 255);
    const auto difference = [&](std::size_t c) { return colours.figure[c] - colours.ground[c]; };
    contrast = (77 * difference(0) + 150 * difference(1) + 29 * difference(2)) / 256;  // in brightness
  } while (std::abs(contrast) < kLeastContrast);
  if ((contrast > 0) != light_figure) std::swap(colours.ground, colours.figure);
  return colours;
}

// Light that grows along a direction, added to all channels; in 1/256 of a pixel's step a column and a row.
struct Light {
  std::int32_t column = 0, row = 0;
};

// One channel: the ground, over it the figure, then light and noise.
void paint(std::int32_t ground, std::int32_t figure, const Coverage& coverage, Light light,
           std::int32_t noise, const std::int8_t* random, std::uint8_t* channel) {
  for (int row = 0; row < kPictureSide; ++row) {
    const std::int32_t level = (ground << 8) + (row - kPictureSide / 2) * light.row;
    for (int column = 0; column < kPictureSide; ++column) {
      const auto i = static_cast<std::size_t>(row * kPictureSide + column);
      const std::int32_t value = level + (column - kPictureSide / 2) * light.column +
                                 (figure - ground) * coverage[i] + 2 * noise * random[i];
      channel[i] = static_cast<std::uint8_t>(std::clamp(value >> 8, 0, 255));
    }
  }
}

void draw_picture(const Philox& philox, std::uint64_t picture, std::int32_t label, const Degrees& degrees,
                  std::uint8_t* pixels) {
  Words words(philox, picture);
  const FigureOptions figure = choose_figure(static_cast<Figure>(label), degrees, words);
  const Colours colours = choose_colours(words);
  const Light light{words.between(-300, 300), words.between(-300, 300)};
  const std::int32_t noise = words.between(4, 28);  // the largest change of a pixel

  Coverage coverage;
  draw_figure(figure, coverage);
  std::array<std::int8_t, 3 * kPicturePixels> random;
  for (std::size_t i = 0; i < random.size(); i += 16) {
    const auto block = philox.block(picture, kNoiseBlock + i / 16);
    for (std::size_t j = 0; j < 16; ++j) {
      random[i + j] = static_cast<std::int8_t>(static_cast<std::uint8_t>(block[j / 4] >> (8 * (j % 4))));
    }
  }
  for (std::size_t c = 0; c < 3; ++c) {
    paint(colours.ground[c], colours.figure[c], coverage, light, noise, random.data() + c * kPicturePixels,
          pixels + c * kPicturePixels);
  }
}

Dataset empty_synthetic(std::int64_t count) {
  Dataset dataset;
  dataset.name = "synthetic";
  // Of the training pictures, the average over eight seeds.
  const float mean[3] = {0.479f, 0.461f, 0.490f};
  const float deviation[3] = {0.290f, 0.311f, 0.285f};
  std::copy(mean, mean + 3, dataset.mean);
  std::copy(deviation, deviation + 3, dataset.deviation);
  dataset.labels.resize(static_cast<std::size_t>(count));
  allocate_pixels(dataset.images, count * dataset.image_bytes());
  return dataset;
}

// Every class equally often, in shuffled order.
void shuffle_labels(std::span<std::int32_t> labels, Words& words) {
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % kFigures);
  for (std::size_t i = labels.size(); i > 1; --i) {
    std::swap(labels[i - 1],
              labels[static_cast<std::size_t>(words.between(0, static_cast<std::int32_t>(i) - 1))]);
  }
}

}  // namespace

const std::array<const char*, 10>& synthetic_class_names() {
  // In the order of Figure.
  static constexpr std::array kNames = {"disc",
                                        "square",
                                        "triangle",
                                        "cross",
                                        "ring",
                                        "horizontal stripes",
                                        "vertical stripes",
                                        "diagonal stripes",
                                        "checker",
                                        "dots"};
  return kNames;
}

DatasetPair make_synthetic(std::uint64_t seed) {
  const Philox philox(seed, RandomStream::synthetic);
  const Degrees degrees;
  DatasetPair pair{empty_synthetic(kTrain), empty_synthetic(kTest)};
  Words order(philox, kLabelSubstream);
  std::uint64_t picture = 0;
  for (Dataset* dataset : {&pair.train, &pair.test}) {
    shuffle_labels(dataset->labels, order);
    std::uint8_t* pixels = dataset->images.data();
    for (const std::int32_t label : dataset->labels) {
      draw_picture(philox, picture++, label, degrees, pixels);
      pixels += dataset->image_bytes();
    }
  }
  return pair;
}

}  // namespace lockstep
