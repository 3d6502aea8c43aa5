// One step of a made-up network through a Reducer: parameters of random sizes, gradients that are small
// integers, so that sums are exact in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "comm/reducer.h"

namespace lockstep::test {

struct Network {
  std::vector<std::int64_t> numels, offsets;
  std::vector<std::string> names;
  std::vector<Bucket> buckets;
  std::int64_t length() const { return offsets.back(); }
  int parameters() const { return static_cast<int>(numels.size()); }
};

// Parameters of 1 to 400 elements, slices padded to 64 elements (256 bytes), caps of random sizes.
inline Network random_network(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  Network network;
  network.offsets.push_back(0);
  const std::int64_t parameters = 1 + below(40);
  for (std::int64_t p = 0; p < parameters; ++p) {
    network.numels.push_back(1 + below(400));
    network.offsets.push_back(network.offsets.back() + (network.numels.back() + 63) / 64 * 64);
    network.names.push_back("layer" + std::to_string(p) + ".weight");
  }
  const std::vector<std::int64_t> caps{1 + below(1500), 1 + below(6000)};
  network.buckets = plan_buckets(network.numels, network.offsets, caps);
  return network;
}

// The gradient of element i of parameter p on a rank in a step; an integer below 1000.
inline float gradient_of(int rank, int step, std::int64_t p, std::int64_t i) {
  return static_cast<float>((7 * rank + 13 * step + 31 * p + 3 * i) % 1000);
}

inline void write_gradient(const Network& network, int rank, int step, int p, float* gradients) {
  const auto index = static_cast<std::size_t>(p);
  for (std::int64_t i = 0; i < network.numels[index]; ++i) {
    gradients[network.offsets[index] + i] = gradient_of(rank, step, p, i);
  }
}

// The number of elements that are not the mean over the ranks; padding must be zero.
inline int wrong_elements(const Network& network, int ranks, int step, const float* gradients) {
  int wrong = 0;
  for (std::size_t p = 0; p < network.numels.size(); ++p) {
    for (std::int64_t i = 0; i < network.offsets[p + 1] - network.offsets[p]; ++i) {
      float sum = 0;
      if (i < network.numels[p]) {
        for (int rank = 0; rank < ranks; ++rank)
          sum += gradient_of(rank, step, static_cast<std::int64_t>(p), i);
      }
      if (gradients[network.offsets[p] + i] != sum * (1.0f / static_cast<float>(ranks))) ++wrong;
    }
  }
  return wrong;
}

// begin, every parameter ready in a shuffled order of single parameters and short runs, finish.
inline void shuffled_step(Reducer& reducer, const Network& network, int rank, int step, unsigned seed,
                          float* gradients) {
  std::mt19937 random(seed);
  std::vector<std::pair<int, int>> runs;
  for (int p = 0; p < network.parameters();) {
    const int last = std::min(p + static_cast<int>(random() % 3), network.parameters() - 1);
    runs.emplace_back(p, last);
    p = last + 1;
  }
  for (std::size_t i = runs.size(); i > 1; --i) std::swap(runs[i - 1], runs[random() % i]);
  reducer.begin();
  for (const auto& [first, last] : runs) {
    for (int p = first; p <= last; ++p) write_gradient(network, rank, step, p, gradients);
    reducer.on_gradients_ready(first, last);
  }
  reducer.finish();
}

}  // namespace lockstep::test
