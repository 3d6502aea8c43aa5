// The reducer with ranks as threads: exact sums, launch order, errors.
#include "comm/reducer.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "catch.h"
#include "core/error.h"
#include "reducer_step.h"
#include "thread_communicator.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// Three parameters of 4 elements, a bucket each.
Network three_buckets() {
  Network network{{4, 4, 4}, {0, 64, 128, 192}, {"fc.bias", "fc.weight", "conv1.weight"}, {}};
  network.buckets = plan_buckets(network.numels, network.offsets, std::vector<std::int64_t>{16});
  return network;
}

// What one process sees of a reducer: the buckets in the order in which they reached the communicator.
class RecordingCommunicator final : public Communicator {
 public:
  const char* name() const override { return "recording"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Stream& stream() override { return stream_; }
  Allocator& allocator() override { return allocator_; }
  void all_reduce(float*, std::int64_t, ReduceOp, const std::string& what) override {
    stream_.submit([this, what] {
      if (what.find(failing) != std::string::npos) fail(ExitCode::peer, "connection lost");
      launched.push_back(what);
    });
  }
  void reduce_scatter(float*, std::int64_t, ReduceOp, const std::string&) override {}
  void all_gather(float*, std::int64_t, const std::string&) override {}
  void broadcast(float*, std::int64_t, int, const std::string&) override {}
  void all_reduce_host(double*, std::int64_t, ReduceOp, const std::string&) override {}
  void broadcast_host(void*, std::int64_t, int, const std::string&) override {}
  void all_gather_host(const void*, std::int64_t, void*, const std::string&) override {}
  void barrier(const std::string&) override {}

  std::vector<std::string> launched;
  std::string failing = "nothing";

 private:
  HostAllocator allocator_;
  WorkerStream stream_{"comm"};
};

// A reducer over three buckets, with everything that it needs.
struct Fixture {
  explicit Fixture(Reducer::Options options = {})
      : reducer(communicator, compute, network.buckets, network.names, gradients.data(), options) {}
  Network network = three_buckets();
  std::vector<float> gradients = std::vector<float>(192);
  RecordingCommunicator communicator;
  InlineStream compute;
  Reducer reducer;
};

}  // namespace

TEST_CASE("the mean is exact for 1 to 8 ranks, in any ready order, for any buckets, step after step") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      CAPTURE(ranks, seed);
      const Network network = random_network(100 * static_cast<unsigned>(ranks) + seed);
      std::vector<int> wrong(static_cast<std::size_t>(ranks), 0);
      std::vector<char> in_order(static_cast<std::size_t>(ranks), 1);
      const auto errors = run_ranks(ranks, [&](Communicator& communicator) {
        std::vector<float> gradients(static_cast<std::size_t>(network.length()));
        InlineStream compute;
        Reducer reducer(communicator, compute, network.buckets, network.names, gradients.data(), {});
        const auto rank = static_cast<std::size_t>(communicator.rank());
        for (int step = 0; step < 3; ++step) {
          // Every rank has an order of its own: the launches must match all the same.
          const unsigned order = seed + 17 * static_cast<unsigned>(communicator.rank() + 10 * step);
          shuffled_step(reducer, network, communicator.rank(), step, order, gradients.data());
          wrong[rank] += wrong_elements(network, ranks, step, gradients.data());
          std::vector<int> expected(network.buckets.size());
          std::iota(expected.begin(), expected.end(), 0);
          if (reducer.launch_order() != expected) in_order[rank] = 0;
        }
      });
      CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
      CHECK(wrong == std::vector<int>(static_cast<std::size_t>(ranks), 0));
      CHECK(in_order == std::vector<char>(static_cast<std::size_t>(ranks), 1));
    }
  }
}

TEST_CASE("compute may be a worker stream: a bucket is read only after the work before its launch") {
  const Network network = random_network(77);
  std::vector<int> wrong(3, 0);
  const auto errors = run_ranks(3, [&](Communicator& communicator) {
    std::vector<float> gradients(static_cast<std::size_t>(network.length()));
    WorkerStream compute("compute");
    Reducer reducer(communicator, compute, network.buckets, network.names, gradients.data(), {});
    const int rank = communicator.rank();
    reducer.begin();
    for (int p = 0; p < network.parameters(); ++p) {
      compute.submit([&, p] {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        write_gradient(network, rank, 0, p, gradients.data());
      });
      reducer.on_gradients_ready(p, p);
    }
    reducer.finish();
    compute.submit(
        [&] { wrong[static_cast<std::size_t>(rank)] = wrong_elements(network, 3, 0, gradients.data()); });
    compute.synchronize();
  });
  CHECK(errors == std::vector<std::string>(3));
  CHECK(wrong == std::vector<int>(3, 0));
}

TEST_CASE("overlap on and off give the same bits") {
  const Network network = random_network(5);
  std::vector<std::vector<float>> results;
  for (const bool overlap : {true, false}) {
    std::vector<float> of_rank_1;
    const auto errors = run_ranks(3, [&](Communicator& communicator) {
      std::vector<float> gradients(static_cast<std::size_t>(network.length()));
      InlineStream compute;
      Reducer reducer(communicator, compute, network.buckets, network.names, gradients.data(),
                      {.overlap = overlap});
      shuffled_step(reducer, network, communicator.rank(), 0, 9, gradients.data());
      if (communicator.rank() == 1) of_rank_1 = gradients;
    });
    CHECK(errors == std::vector<std::string>(3));
    results.push_back(of_rank_1);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("without overlap nothing is launched before finish") {
  Fixture on, off({.overlap = false});
  for (Fixture* f : {&on, &off}) {
    f->reducer.begin();
    f->reducer.on_gradients_ready(0, 1);
  }
  CHECK(on.reducer.launch_order() == std::vector<int>{0, 1});
  CHECK(off.reducer.launch_order().empty());
  for (Fixture* f : {&on, &off}) {
    f->reducer.on_gradients_ready(2, 2);
    f->reducer.finish();
    CHECK(f->reducer.launch_order() == std::vector<int>{0, 1, 2});
    CHECK(f->communicator.launched.size() == 3);
  }
}

TEST_CASE("a full bucket waits for the buckets before it") {
  Fixture f;
  f.reducer.begin();
  f.reducer.on_gradients_ready(2, 2);
  f.reducer.on_gradients_ready(1, 1);
  CHECK(f.reducer.launch_order().empty());
  f.reducer.on_gradients_ready(0, 0);
  CHECK(f.reducer.launch_order() == std::vector<int>{0, 1, 2});
  f.reducer.finish();
  REQUIRE(f.communicator.launched.size() == 3);
  CHECK_THAT(f.communicator.launched[0], ContainsSubstring("bucket 0") && ContainsSubstring("fc.bias"));
  CHECK_THAT(f.communicator.launched[2], ContainsSubstring("bucket 2") && ContainsSubstring("conv1.weight"));
  for (int b = 0; b < 3; ++b) CHECK(f.reducer.reduced(b).query());
}

TEST_CASE("while gradients only accumulate nothing travels") {
  Fixture f;
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
    f.reducer.begin(false);
    f.reducer.on_gradients_ready(0, 2);
    f.reducer.on_gradients_ready(0, 2);
    f.reducer.finish();
  }
  CHECK(f.reducer.launch_order().empty());
  f.reducer.begin(true);
  f.reducer.on_gradients_ready(0, 2);
  f.reducer.finish();
  CHECK(f.communicator.launched.size() == 3);
}

TEST_CASE("errors of the caller name the parameter") {
  SECTION("ready twice") {
    Fixture f;
    f.reducer.begin();
    f.reducer.on_gradients_ready(1, 1);
    CHECK_THROWS_WITH(f.reducer.on_gradients_ready(0, 1),
                      ContainsSubstring("fc.weight") && ContainsSubstring("second time"));
  }
  SECTION("never ready") {
    Fixture f;
    f.reducer.begin();
    f.reducer.on_gradients_ready(1, 1);
    CHECK_THROWS_WITH(f.reducer.finish(),
                      ContainsSubstring("fc.bias, conv1.weight") && !ContainsSubstring("fc.weight"));
  }
  SECTION("not begun") {
    Fixture f;
    CHECK_THROWS_WITH(f.reducer.on_gradients_ready(0, 0),
                      ContainsSubstring("fc.bias") && ContainsSubstring("begin()"));
    CHECK_THROWS_AS(f.reducer.finish(), Error);
  }
  SECTION("begun twice, or ready after finish") {
    Fixture f;
    f.reducer.begin();
    CHECK_THROWS_AS(f.reducer.begin(), Error);
    f.reducer.on_gradients_ready(0, 2);
    f.reducer.finish();
    CHECK_THROWS_WITH(f.reducer.on_gradients_ready(2, 2), ContainsSubstring("conv1.weight"));
  }
  SECTION("no such parameter") {
    Fixture f;
    f.reducer.begin();
    CHECK_THROWS_AS(f.reducer.on_gradients_ready(2, 3), Error);
    CHECK_THROWS_AS(f.reducer.on_gradients_ready(-1, 0), Error);
    CHECK_THROWS_AS(f.reducer.on_gradients_ready(2, 1), Error);
  }
}

TEST_CASE("buckets that do not cover the parameters are refused") {
  Network network = three_buckets();
  std::vector<float> gradients(192);
  RecordingCommunicator communicator;
  InlineStream compute;
  const auto make = [&] {
    Reducer(communicator, compute, network.buckets, network.names, gradients.data(), {});
  };
  CHECK_NOTHROW(make());
  network.names.push_back("forgotten");
  CHECK_THROWS_AS(make(), Error);
  network.names.resize(2);
  CHECK_THROWS_AS(make(), Error);
  network.names.resize(3);
  std::swap(network.buckets[0], network.buckets[1]);
  CHECK_THROWS_AS(make(), Error);
}

TEST_CASE("an error of a collective comes out of finish") {
  Fixture f;
  f.communicator.failing = "bucket 1";
  f.reducer.begin();
  f.reducer.on_gradients_ready(0, 2);
  CHECK_THROWS_WITH(f.reducer.finish(), "connection lost");
  f.communicator.stream().record();
  CHECK(f.communicator.launched.size() == 1);
}

TEST_CASE("its end waits for what still writes to the gradients") {
  bool done = false;
  RecordingCommunicator communicator;
  {
    Network network = three_buckets();
    std::vector<float> gradients(192);
    InlineStream compute;
    Reducer reducer(communicator, compute, network.buckets, network.names, gradients.data(), {});
    // A collective of the same step that is not a bucket.
    communicator.stream().submit([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      done = true;
    });
  }
  CHECK(done);
}

TEST_CASE("each bucket is a span of the trace") {
  Tracer tracer(0);
  {
    Fixture f({.tracer = &tracer});
    f.reducer.begin();
    f.reducer.on_gradients_ready(0, 2);
    f.reducer.finish();
    f.communicator.stream().synchronize();
  }
  const std::string path = std::string(LOCKSTEP_BIN_DIR) + "/reducer_trace.json";
  tracer.open(path);
  tracer.write();
  std::FILE* file = std::fopen(path.c_str(), "r");
  REQUIRE(file != nullptr);
  std::string text(10000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  std::remove(path.c_str());
  for (int b = 0; b < 3; ++b)
    CHECK_THAT(text, ContainsSubstring("all_reduce of bucket " + std::to_string(b)));
}
