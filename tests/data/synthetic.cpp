#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "catch.h"
#include "core/hash.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "data/figures.h"
#include "data/sampler.h"

using namespace lockstep;

namespace {

constexpr std::size_t kPixels = 3072;

// Softmax regression on normalised pixels, trained by SGD with momentum and a falling rate: what a linear
// model can do. Weights are [input][class], padded to 16 classes: one vector register a row.
class LinearModel {
 public:
  explicit LinearModel(const Dataset& dataset) : dataset_(dataset) {}

  void train(int epochs, float rate) {
    constexpr std::size_t kBatch = 50;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const auto order = torch_randperm(dataset_.size(), static_cast<std::uint64_t>(epoch));
      const float now = rate * (1.0f - static_cast<float>(epoch) / static_cast<float>(epochs));
      for (std::size_t first = 0; first + kBatch <= order.size(); first += kBatch) {
        std::fill(gradient_.begin(), gradient_.end(), Row{});
        for (std::size_t i = first; i < first + kBatch; ++i) add_gradient(order[i], 1.0f / kBatch);
        step(now);
      }
    }
  }

  double accuracy(const Dataset& dataset) {
    std::int64_t correct = 0;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      Row scores;
      forward(dataset, i, scores);
      int best = 0;
      for (int k = 1; k < 10; ++k) best = scores[k] > scores[best] ? k : best;
      correct += best == dataset.labels[static_cast<std::size_t>(i)];
    }
    return static_cast<double>(correct) / static_cast<double>(dataset.size());
  }

 private:
  // One value a class. The compilers' vector type: their loops over 16 floats are not reliably vectorised.
  using Row = float __attribute__((vector_size(64)));

  void forward(const Dataset& dataset, std::int64_t i, Row& scores) {
    const std::uint8_t* pixels = dataset.images.data() + i * dataset.image_bytes();
    for (std::size_t c = 0; c < 3; ++c) {
      const float scale = 1.0f / (255.0f * dataset.deviation[c]),
                  shift = dataset.mean[c] / dataset.deviation[c];
      for (std::size_t p = 1024 * c; p < 1024 * (c + 1); ++p) input_[p] = pixels[p] * scale - shift;
    }
    // Two sums, so that an addition need not wait for the one before it.
    Row even = bias_, odd{};
    for (std::size_t p = 0; p < kPixels; p += 2) {
      even += input_[p] * weights_[p];
      odd += input_[p + 1] * weights_[p + 1];
    }
    scores = even + odd;
  }

  void add_gradient(std::int64_t i, float scale) {
    Row slope;
    forward(dataset_, i, slope);
    float largest = slope[0], sum = 0;
    for (int k = 1; k < 10; ++k) largest = std::max(largest, slope[k]);
    for (int k = 0; k < 16; ++k) slope[k] = k < 10 ? std::exp(slope[k] - largest) : 0;
    for (int k = 0; k < 10; ++k) sum += slope[k];
    slope *= scale / sum;
    slope[dataset_.labels[static_cast<std::size_t>(i)]] -= scale;
    for (std::size_t p = 0; p < kPixels; ++p) gradient_[p] += input_[p] * slope;
    bias_gradient_ += slope;
  }

  void step(float rate) {
    for (std::size_t p = 0; p < kPixels; ++p) {
      momentum_[p] = 0.9f * momentum_[p] + gradient_[p];
      weights_[p] -= rate * momentum_[p];
    }
    bias_ -= rate * bias_gradient_;
    bias_gradient_ = Row{};
  }

  const Dataset& dataset_;
  std::array<float, kPixels> input_{};
  std::vector<Row> weights_ = std::vector<Row>(kPixels), gradient_ = weights_, momentum_ = weights_;
  Row bias_{}, bias_gradient_{};
};

std::uint64_t checksum(const Dataset& dataset) {
  Hash hash;
  hash.add_bytes(dataset.images.data(), dataset.images.size());
  hash.add_bytes(dataset.labels.data(), dataset.labels.size() * sizeof(std::int32_t));
  return hash.value();
}

}  // namespace

TEST_CASE("the synthetic set is a pure function of the seed") {
  const DatasetPair pair = make_synthetic(0);
  CHECK(checksum(pair.train) == checksum(make_synthetic(0).train));
  CHECK(checksum(pair.train) != checksum(make_synthetic(1).train));
  CHECK(checksum(pair.train) != checksum(make_synthetic(std::uint64_t{1} << 32).train));
  // On every machine and with every compiler.
  CHECK(checksum(pair.train) == 0xce319d1be0fb1955u);
  CHECK(checksum(pair.test) == 0x03b9cc83911bc7bfu);
}

TEST_CASE("the synthetic set has the promised form") {
  const DatasetPair pair = make_synthetic(7);
  for (const Dataset* dataset : {&pair.train, &pair.test}) {
    CHECK(dataset->size() == (dataset == &pair.train ? 10000 : 2000));
    REQUIRE(dataset->images.size() == static_cast<std::size_t>(dataset->size() * dataset->image_bytes()));
    std::array<std::int64_t, 10> counts{};
    for (const std::int32_t label : dataset->labels) ++counts.at(static_cast<std::size_t>(label));
    for (const std::int64_t count : counts) CHECK(count == dataset->size() / 10);
  }
  CHECK(pair.train.name == "synthetic");
  CHECK_FALSE(std::is_sorted(pair.train.labels.begin(), pair.train.labels.begin() + 20));
  CHECK(std::memcmp(pair.train.images.data(), pair.test.images.data(), 2000 * kPixels) != 0);
}

TEST_CASE("the constants of normalisation are those of the pictures") {
  const Dataset train = make_synthetic(3).train;
  for (std::size_t c = 0; c < 3; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < train.size(); ++i) {
      const std::uint8_t* channel =
          train.images.data() + i * train.image_bytes() + static_cast<std::int64_t>(c) * 1024;
      for (int p = 0; p < 1024; ++p) {
        const double value = channel[p] / 255.0;
        sum += value;
        squares += value * value;
      }
    }
    const double count = static_cast<double>(train.size()) * 1024;
    const double mean = sum / count;
    CHECK(train.mean[c] == Approx(mean).margin(0.005));
    CHECK(train.deviation[c] == Approx(std::sqrt(squares / count - mean * mean)).margin(0.005));
  }
}

TEST_CASE("figures cover what they should") {
  FigureOptions options;
  options.center_x = options.center_y = 16 * 256;
  options.size = 8 * 256;
  options.width = 2 * 256;
  Coverage coverage;
  const auto area = [&](Figure figure) {
    options.figure = figure;
    draw_figure(options, coverage);
    double sum = 0;
    for (const std::int32_t value : coverage) {
      REQUIRE((value >= 0 && value <= 256));
      sum += value / 256.0;
    }
    return sum;
  };
  const double pi = std::acos(-1.0);
  CHECK(area(Figure::disc) == Approx(64 * pi).epsilon(0.02));
  CHECK(area(Figure::square) == Approx(256).epsilon(0.01));
  CHECK(area(Figure::triangle) == Approx(0.75 * std::sqrt(3.0) * 64).epsilon(0.02));
  CHECK(area(Figure::cross) == Approx(2 * 16 * 4 - 16).epsilon(0.02));
  CHECK(area(Figure::ring) == Approx(pi * (10 * 10 - 6 * 6)).epsilon(0.03));
  for (const Figure half : {Figure::horizontal_stripes, Figure::checker})
    CHECK(area(half) == Approx(512).epsilon(0.02));
  CHECK(area(Figure::dots) == Approx(16 * 4 * pi).epsilon(0.05));
}

// What makes the set a test of a deep network: no weighting of pixels tells the classes apart.
TEST_CASE("a linear model stays below 60 percent on the synthetic set", "[long]") {
  const DatasetPair pair = make_synthetic(0);
  LinearModel model(pair.train);
  model.train(6, 0.002f);
  const double train = model.accuracy(pair.train), test = model.accuracy(pair.test);
  WARN("softmax regression on pixels: training accuracy " << train << ", test accuracy " << test);
  CHECK(train > 0.15);  // it was trained: guessing is 0.1
  CHECK(test <= 0.60);
}
