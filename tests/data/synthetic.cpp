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

// Softmax regression on normalised pixels, trained by minibatch SGD with momentum and a falling rate: what a
// linear model can do.
class LinearModel {
 public:
  explicit LinearModel(const Dataset& dataset) : dataset_(dataset) {}

  void train(int epochs, float rate) {
    constexpr std::size_t kBatch = 50;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const auto order = torch_randperm(dataset_.size(), static_cast<std::uint64_t>(epoch));
      const float now = rate * (1.0f - static_cast<float>(epoch) / static_cast<float>(epochs));
      for (std::size_t first = 0; first + kBatch <= order.size(); first += kBatch) {
        for (auto& row : gradient_) row.fill(0);
        for (std::size_t i = first; i < first + kBatch; ++i) add_gradient(order[i], 1.0f / kBatch);
        step(now);
      }
    }
  }

  double accuracy(const Dataset& dataset) {
    std::int64_t correct = 0;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const auto scores = forward(dataset, i);
      const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
      correct += best == dataset.labels[static_cast<std::size_t>(i)];
    }
    return static_cast<double>(correct) / static_cast<double>(dataset.size());
  }

 private:
  // The last input is 1: its weight is the bias.
  using Row = std::array<float, kPixels + 16>;

  std::array<float, 10> forward(const Dataset& dataset, std::int64_t i) {
    const std::uint8_t* pixels = dataset.images.data() + i * dataset.image_bytes();
    input_.fill(0);
    for (std::size_t p = 0; p < kPixels; ++p) {
      const std::size_t c = p / 1024;
      input_[p] = (static_cast<float>(pixels[p]) / 255.0f - dataset.mean[c]) / dataset.deviation[c];
    }
    input_[kPixels] = 1;
    std::array<float, 10> scores{};
    for (std::size_t k = 0; k < 10; ++k) {
      std::array<float, 16> sums{};
      for (std::size_t p = 0; p < input_.size(); p += 16) {
        for (std::size_t j = 0; j < 16; ++j) sums[j] += weights_[k][p + j] * input_[p + j];
      }
      for (const float sum : sums) scores[k] += sum;
    }
    return scores;
  }

  void add_gradient(std::int64_t i, float scale) {
    auto p = forward(dataset_, i);
    const float largest = *std::max_element(p.begin(), p.end());
    float sum = 0;
    for (float& value : p) sum += value = std::exp(value - largest);
    for (std::size_t k = 0; k < 10; ++k) {
      const bool is_label = dataset_.labels[static_cast<std::size_t>(i)] == static_cast<int>(k);
      const float factor = scale * (p[k] / sum - (is_label ? 1.0f : 0.0f));
      for (std::size_t j = 0; j < input_.size(); ++j) gradient_[k][j] += factor * input_[j];
    }
  }

  void step(float rate) {
    for (std::size_t k = 0; k < 10; ++k) {
      for (std::size_t j = 0; j < input_.size(); ++j) {
        momentum_[k][j] = 0.9f * momentum_[k][j] + gradient_[k][j];
        weights_[k][j] -= rate * momentum_[k][j];
      }
    }
  }

  const Dataset& dataset_;
  Row input_{};
  std::array<Row, 10> weights_{}, gradient_{}, momentum_{};
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
  CHECK(checksum(pair.train) == 0);
  CHECK(checksum(pair.test) == 0);
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
    CHECK(train.mean[c] == Approx(mean).margin(0.01));
    CHECK(train.deviation[c] == Approx(std::sqrt(squares / count - mean * mean)).margin(0.01));
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
