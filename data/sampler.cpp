#include "data/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "core/error.h"

namespace lockstep {

namespace {

// From this size on one 32-bit draw would be visibly uneven over the remaining positions, so PyTorch takes 64
// bits.
constexpr std::int64_t kWideDraws = std::numeric_limits<std::uint32_t>::max() / 20;

// Fisher-Yates from the front: position i swaps with one of i..n-1.
void shuffle_narrow(std::vector<std::int64_t>& order, std::mt19937& engine) {
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto n = static_cast<std::uint32_t>(order.size());
  for (std::uint32_t i = 0; i + 1 < n; ++i) {
    const auto draw = static_cast<std::uint32_t>(engine());
    std::swap(order[i], order[i + draw % (n - i)]);
  }
}

// "Inside-out": position i takes the value of one of 0..i, which takes i. A draw is two words, the upper one
// first.
void shuffle_wide(std::vector<std::int64_t>& order, std::mt19937& engine) {
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    const std::uint64_t upper = engine();
    const std::uint64_t lower = engine();
    const std::uint64_t z = ((upper << 32) | lower) % (i + 1);
    order[i] = order[z];
    order[z] = static_cast<std::int64_t>(i);
  }
}

}  // namespace

std::vector<std::int64_t> torch_randperm(std::int64_t n, std::uint64_t seed) {
  LOCKSTEP_CHECK(n >= 0, "a permutation of {} elements", n);
  // torch.Generator takes a 64-bit seed and gives its mt19937 the lower half.
  std::mt19937 engine(static_cast<std::uint32_t>(seed));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  if (n < kWideDraws) {
    shuffle_narrow(order, engine);
  } else {
    shuffle_wide(order, engine);
  }
  return order;
}

std::int64_t samples_per_rank(const SamplerOptions& options) {
  LOCKSTEP_CHECK(options.dataset_size >= 0, "a data set of {} samples", options.dataset_size);
  LOCKSTEP_CHECK(options.world_size >= 1, "a world of {} ranks", options.world_size);
  const std::int64_t whole = options.dataset_size / options.world_size;
  const bool rest = options.dataset_size % options.world_size != 0;
  return rest && !options.drop_last ? whole + 1 : whole;
}

std::vector<std::int64_t> distributed_indices(const SamplerOptions& options, std::int64_t epoch) {
  LOCKSTEP_CHECK(options.rank >= 0 && options.rank < options.world_size, "rank {} of {}", options.rank,
                 options.world_size);
  LOCKSTEP_CHECK(epoch >= 0, "epoch {}", epoch);
  const std::int64_t count = samples_per_rank(options);
  std::vector<std::int64_t> order;
  if (options.shuffle) {
    order = torch_randperm(options.dataset_size, options.seed + static_cast<std::uint64_t>(epoch));
  }
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    // Past the end the order starts again: that is the cyclic padding, also where the world is larger than
    // the set.
    const std::int64_t position = (options.rank + i * options.world_size) % options.dataset_size;
    indices[static_cast<std::size_t>(i)] =
        options.shuffle ? order[static_cast<std::size_t>(position)] : position;
  }
  return indices;
}

std::vector<std::int64_t> evaluation_indices(std::int64_t dataset_size, int world_size, int rank) {
  LOCKSTEP_CHECK(dataset_size >= 0 && world_size >= 1, "{} samples over {} ranks", dataset_size, world_size);
  LOCKSTEP_CHECK(rank >= 0 && rank < world_size, "rank {} of {}", rank, world_size);
  // The first `rest` ranks hold one sample more.
  const std::int64_t share = dataset_size / world_size;
  const std::int64_t rest = dataset_size % world_size;
  const std::int64_t first = rank * share + std::min<std::int64_t>(rank, rest);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(share + (rank < rest ? 1 : 0)));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

}  // namespace lockstep
