#include "data/sampler.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <string>

#include "catch.h"
#include "core/error.h"

using namespace lockstep;
using Indices = std::vector<std::int64_t>;

namespace {

SamplerOptions in_order(std::int64_t size, int world, int rank, bool drop_last = false) {
  SamplerOptions options;
  options.dataset_size = size;
  options.world_size = world;
  options.rank = rank;
  options.shuffle = false;
  options.drop_last = drop_last;
  return options;
}

SamplerOptions shuffled(std::int64_t size, int world, int rank, std::uint64_t seed) {
  SamplerOptions options = in_order(size, world, rank);
  options.shuffle = true;
  options.seed = seed;
  return options;
}

// As make_sampler_fixtures.py has it.
constexpr std::uint64_t kHashStart = 0xCBF29CE484222325u;
std::uint64_t hash_of(const Indices& indices, std::uint64_t hash = kHashStart) {
  for (const std::int64_t index : indices) hash = (hash ^ static_cast<std::uint64_t>(index)) * 0x100000001B3u;
  return hash;
}

}  // namespace

TEST_CASE("golden shards without shuffle") {
  const auto shard = [](std::int64_t size, int world, int rank, bool drop_last = false) {
    return distributed_indices(in_order(size, world, rank, drop_last), 0);
  };
  CHECK(shard(10, 4, 0) == Indices{0, 4, 8});
  CHECK(shard(10, 4, 1) == Indices{1, 5, 9});
  CHECK(shard(10, 4, 2) == Indices{2, 6, 0});
  CHECK(shard(10, 4, 3) == Indices{3, 7, 1});
  CHECK(shard(10, 4, 0, true) == Indices{0, 4});
  CHECK(shard(10, 4, 1, true) == Indices{1, 5});
  CHECK(shard(10, 4, 2, true) == Indices{2, 6});
  CHECK(shard(10, 4, 3, true) == Indices{3, 7});

  const Indices expected = {0, 1, 2, 0, 1, 2, 0, 1};
  for (int rank = 0; rank < 8; ++rank) {
    CHECK(shard(3, 8, rank) == Indices{expected[static_cast<std::size_t>(rank)]});
    CHECK(shard(3, 8, rank, true).empty());
  }

  const Indices eighth = shard(50000, 8, 3);
  CHECK(eighth.size() == 6250);
  CHECK(eighth.front() == 3);
  CHECK(eighth.back() == 49995);
  const Indices third = shard(10000, 3, 1);
  CHECK(third.size() == 3334);
  CHECK(third.back() == 0);
  CHECK(shard(0, 4, 2).empty());
}

TEST_CASE("golden shards with shuffle") {
  CHECK(distributed_indices(shuffled(12, 2, 0, 0), 0) == Indices{8, 5, 7, 2, 3, 11});
  CHECK(distributed_indices(shuffled(12, 2, 0, 0), 1) == Indices{1, 6, 11, 5, 2, 10});
}

TEST_CASE("indices equal PyTorch's") {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/parity/fixtures/sampler.txt");
  REQUIRE(file);
  int samplers = 0, permutations = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    INFO(line);
    if (kind == "sampler") {
      SamplerOptions options;
      std::int64_t epoch = 0, per_rank = 0;
      std::uint64_t hash = 0;
      words >> options.dataset_size >> options.world_size >> options.shuffle >> options.drop_last >>
          options.seed;
      words >> epoch >> per_rank >> std::hex >> hash;
      REQUIRE(words);
      std::uint64_t ours = kHashStart;
      for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
        const Indices indices = distributed_indices(options, epoch);
        REQUIRE(static_cast<std::int64_t>(indices.size()) == per_rank);
        REQUIRE(samples_per_rank(options) == per_rank);
        ours = hash_of(indices, ours);
      }
      REQUIRE(ours == hash);
      ++samplers;
    } else if (kind == "randperm") {
      std::int64_t size = 0;
      std::uint64_t seed = 0, hash = 0;
      words >> size >> seed >> std::hex >> hash;
      REQUIRE(words);
      REQUIRE(hash_of(torch_randperm(size, seed)) == hash);
      ++permutations;
    }
  }
  CHECK(samplers == 648);
  CHECK(permutations == 40);
}

// The shards together, whatever the sizes: every sample, and every extra one is from the start of the order.
TEST_CASE("shards are disjoint and complete") {
  for (const std::int64_t size : {1, 2, 7, 64, 65, 100}) {
    for (int world = 1; world <= 9; ++world) {
      for (const std::int64_t epoch : {0, 3}) {
        INFO("size " << size << ", world " << world << ", epoch " << epoch);
        const Indices order = torch_randperm(size, 5 + static_cast<std::uint64_t>(epoch));
        Indices joined(static_cast<std::size_t>(samples_per_rank(in_order(size, world, 0)) * world));
        for (int rank = 0; rank < world; ++rank) {
          const Indices shard = distributed_indices(shuffled(size, world, rank, 5), epoch);
          for (std::size_t i = 0; i < shard.size(); ++i) {
            joined[i * static_cast<std::size_t>(world) + static_cast<std::size_t>(rank)] = shard[i];
          }
        }
        for (std::size_t i = 0; i < joined.size(); ++i) REQUIRE(joined[i] == order[i % order.size()]);
      }
    }
  }
}

TEST_CASE("each epoch has another order, and the same one each time") {
  const SamplerOptions options = shuffled(1000, 2, 1, 9);
  std::set<Indices> orders;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) orders.insert(distributed_indices(options, epoch));
  CHECK(orders.size() == 20);
  CHECK(distributed_indices(options, 4) == distributed_indices(options, 4));
}

TEST_CASE("evaluation takes every sample exactly once") {
  for (const std::int64_t size : {0, 1, 3, 10, 2000, 10000}) {
    for (int world = 1; world <= 9; ++world) {
      Indices joined;
      std::size_t smallest = static_cast<std::size_t>(size), largest = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Indices share = evaluation_indices(size, world, rank);
        smallest = std::min(smallest, share.size());
        largest = std::max(largest, share.size());
        joined.insert(joined.end(), share.begin(), share.end());
      }
      Indices all(static_cast<std::size_t>(size));
      std::iota(all.begin(), all.end(), std::int64_t{0});
      INFO("size " << size << ", world " << world);
      REQUIRE(joined == all);
      REQUIRE(largest - smallest <= 1);
    }
  }
}

TEST_CASE("a rank outside the world is a defect of the caller") {
  CHECK_THROWS_AS(distributed_indices(in_order(10, 2, 2), 0), Error);
  CHECK_THROWS_AS(distributed_indices(in_order(10, 2, -1), 0), Error);
  CHECK_THROWS_AS(evaluation_indices(10, 0, 0), Error);
}
