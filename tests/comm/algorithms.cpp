// Ring, tree and doubling between threads, and the collectives of a node, held to exact sums: the values are
// integers that floats add without rounding.
#include "comm/algorithms.h"

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <vector>

#include "catch.h"
#include "comm/collectives.h"
#include "comm/node_collectives.h"
#include "thread_communicator.h"
#include "thread_transport.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// Shorter than the ranks, around the pieces of 256 KiB, and several of them.
const std::vector<std::int64_t> kCounts{0, 1, 2, 3, 7, 17, 1000, 65535, 65537, 200003};

template <class T>
T value_of(int rank, std::int64_t i) {
  return static_cast<T>((i * 7 + rank * 13) % 101 - 50);
}

template <class T>
std::vector<T> values_of(int rank, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = value_of<T>(rank, i);
  return values;
}

template <class T>
std::vector<T> reduced(int ranks, std::int64_t count, ReduceOp op) {
  std::vector<T> result = values_of<T>(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    for (std::int64_t i = 0; i < count; ++i) {
      T& at = result[static_cast<std::size_t>(i)];
      const T other = value_of<T>(rank, i);
      at = op == ReduceOp::max ? std::max(at, other) : at + other;
    }
  }
  if (op == ReduceOp::mean) {
    for (T& at : result) at *= T(1) / static_cast<T>(ranks);
  }
  return result;
}

const std::vector<ReduceOp> kOps{ReduceOp::sum, ReduceOp::mean, ReduceOp::max};

// body(collectives, rank) on each of `ranks` threads. "" where all went well, else what one of them threw.
std::string run_collectives(Algorithm algorithm, int ranks,
                            const std::function<void(Collectives&, int)>& body) {
  Post post(ranks);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadTransport transport(post, rank);
      const auto collectives = make_collectives(algorithm, transport);
      try {
        body(*collectives, rank);
        if (!transport.idle()) fail(ExitCode::internal, "a request was not waited for");
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) {
    if (!error.empty()) return error;
  }
  return "";
}

// Every collective with exact results, on memory from `make` (data of a rank). Returns what is wrong.
class Exactness {
 public:
  Exactness(int ranks, std::int64_t count)
      : ranks_(ranks), count_(count), mistakes_(static_cast<std::size_t>(ranks)) {
    for (const ReduceOp op : kOps) {
      floats_.push_back(reduced<float>(ranks, count, op));
      doubles_.push_back(reduced<double>(ranks, count, op));
    }
  }

  void check(Collectives& collectives, int rank, float* data) {
    for (std::size_t op = 0; op < kOps.size(); ++op) {
      fill(data, rank);
      collectives.all_reduce(data, count_, kOps[op]);
      expect(rank, equal(data, floats_[op], {0, count_}), "all_reduce");
      std::vector<double> twice = values_of<double>(rank, count_);
      collectives.all_reduce(twice.data(), count_, kOps[op]);
      expect(rank, twice == doubles_[op], "all_reduce of doubles");
      fill(data, rank);
      collectives.reduce_scatter(data, count_, kOps[op]);
      expect(rank, equal(data, floats_[op], chunk_of(count_, ranks_, rank)), "reduce_scatter");
    }
    for (std::int64_t i = 0; i < count_; ++i) data[i] = NAN;
    const Range mine = chunk_of(count_, ranks_, rank);
    for (std::int64_t i = mine.begin; i < mine.begin + mine.length; ++i) data[i] = floats_[0][at(i)];
    collectives.all_gather(data, count_);
    expect(rank, equal(data, floats_[0], {0, count_}), "all_gather");
    for (int root = 0; root < ranks_; ++root) {
      fill(data, rank);
      collectives.broadcast(data, count_ * static_cast<std::int64_t>(sizeof(float)), root);
      expect(rank, equal(data, values_of<float>(root, count_), {0, count_}), "broadcast");
    }
  }
  std::string mistakes() const {
    std::string all;
    for (const std::string& text : mistakes_) all += text;
    return all;
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  void fill(float* data, int rank) const {
    for (std::int64_t i = 0; i < count_; ++i) data[i] = value_of<float>(rank, i);
  }
  static bool equal(const float* data, const std::vector<float>& expected, const Range& range) {
    return std::equal(data + range.begin, data + range.begin + range.length, expected.begin() + range.begin);
  }
  void expect(int rank, bool right, const char* what) {
    if (!right) mistakes_[at(rank)] += fmt::format("{} on rank {} of {}\n", what, rank, ranks_);
  }
  int ranks_;
  std::int64_t count_;
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<double>> doubles_;
  std::vector<std::string> mistakes_;
};

}  // namespace

TEST_CASE("ring, tree and doubling are exact at every world size and count") {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::doubling}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const std::int64_t count : kCounts) {
        CAPTURE(static_cast<int>(algorithm), ranks, count);
        Exactness exactness(ranks, count);
        CHECK(run_collectives(algorithm, ranks, [&](Collectives& collectives, int rank) {
                std::vector<float> data(static_cast<std::size_t>(count));
                exactness.check(collectives, rank, data.data());
              }) == "");
        CHECK(exactness.mistakes() == "");
      }
    }
  }
}

TEST_CASE("every rank gets the same bits where sums are rounded") {
  constexpr std::int64_t kCount = 70001;
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::doubling}) {
    for (const int ranks : {2, 3, 5, 8}) {
      std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
      CHECK(run_collectives(algorithm, ranks, [&](Collectives& collectives, int rank) {
              std::vector<float> data(kCount);
              for (std::size_t i = 0; i < data.size(); ++i)
                data[i] = std::sin(static_cast<float>(i) * 0.37f + static_cast<float>(rank));
              collectives.all_reduce(data.data(), kCount, ReduceOp::mean);
              results[static_cast<std::size_t>(rank)] = data;
            }) == "");
      for (const auto& result : results) CHECK(result == results[0]);
    }
  }
}

TEST_CASE("the maximum with a NaN is NaN on every rank, whoever has it") {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::doubling}) {
    for (int culprit = 0; culprit < 3; ++culprit) {
      std::vector<float> results(3);
      CHECK(run_collectives(algorithm, 3, [&](Collectives& collectives, int rank) {
              float value = rank == culprit ? NAN : static_cast<float>(rank);
              collectives.all_reduce(&value, 1, ReduceOp::max);
              results[static_cast<std::size_t>(rank)] = value;
            }) == "");
      for (const float result : results) CHECK(std::isnan(result));
    }
  }
}

namespace {

// Ranks as threads, spread over nodes of these sizes.
struct Cluster {
  explicit Cluster(std::vector<int> sizes)
      : node_sizes(std::move(sizes)), leaders(static_cast<int>(node_sizes.size())) {
    for (const int size : node_sizes) ranks += size;
  }
  std::vector<int> node_sizes;
  int ranks = 0;
  Post leaders;
};

// body(collectives, communicator, rank) on each.
std::vector<std::string> run_nodes(const std::vector<int>& node_sizes,
                                   const std::function<void(NodeCollectives&, Communicator&, int)>& body) {
  Cluster cluster(node_sizes);
  Post post(cluster.ranks);
  return run_ranks(cluster.ranks, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    int node = 0, first = 0;
    while (rank >= first + cluster.node_sizes[static_cast<std::size_t>(node)])
      first += cluster.node_sizes[static_cast<std::size_t>(node++)];
    NodeCollectives::Place place;
    for (int i = 0; i < cluster.node_sizes[static_cast<std::size_t>(node)]; ++i)
      place.node_ranks.push_back(first + i);
    place.nodes = static_cast<int>(cluster.node_sizes.size());
    ThreadTransport all(post, rank), leaders(cluster.leaders, node);
    place.all = &all;
    if (rank == first) place.leaders = &leaders;
    std::string why;
    const auto collectives = NodeCollectives::make(communicator, place, why);
    if (!collectives) fail(ExitCode::memory, "{}", why);
    body(*collectives, communicator, rank);
    communicator.barrier("end");
    if (!all.idle() || !leaders.idle()) fail(ExitCode::internal, "a request was not waited for");
  });
}

}  // namespace

TEST_CASE("shared memory is exact in one node and several, reserved memory and other") {
  const std::vector<std::vector<int>> clusters{{1}, {2}, {3}, {4}, {9}, {1, 1}, {2, 2}, {1, 3}, {3, 1, 2}};
  for (const std::vector<int>& sizes : clusters) {
    for (const std::int64_t count : kCounts) {
      int ranks = 0;
      for (const int size : sizes) ranks += size;
      CAPTURE(sizes, count);
      Exactness exactness(ranks, count);
      const auto errors =
          run_nodes(sizes, [&](NodeCollectives& collectives, Communicator& communicator, int rank) {
            std::vector<float> other(static_cast<std::size_t>(count) + 1);
            exactness.check(collectives, rank, other.data());
            std::string why;
            const std::int64_t bytes = (count + 1) * static_cast<std::int64_t>(sizeof(float));
            if (!collectives.reserve(communicator, bytes + 512, why)) fail(ExitCode::memory, "{}", why);
            auto* before = static_cast<float*>(collectives.take(4));
            auto* data = static_cast<float*>(collectives.take(bytes));
            if (!data || !collectives.holds(data) || collectives.holds(other.data()))
              fail(ExitCode::internal, "what is reserved is not told from other memory");
            if (collectives.take(1 << 30)) fail(ExitCode::internal, "more was taken than reserved");
            *before = 7;
            data[count] = 7;
            exactness.check(collectives, rank, data);
            if (*before != 7 || data[count] != 7) fail(ExitCode::internal, "written beyond the data");
          });
      CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
      CHECK(exactness.mistakes() == "");
    }
  }
}

TEST_CASE("where memory cannot be shared, all ranks know it, and whose fault it is") {
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  rlimit small = limit;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  const auto errors = run_nodes({2}, [](NodeCollectives&, Communicator&, int) {});
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, ignored);
  for (const std::string& error : errors)
    CHECK_THAT(error, ContainsSubstring("rank 0 cannot share 1 MiB") && ContainsSubstring("ftruncate"));
}
