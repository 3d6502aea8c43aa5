// Whole steps on the simulated GPU, which counts what the host waits for. tests/gpu/train_step.cpp has the
// rest.
#include <cmath>
#include <string>
#include <vector>

#include "catch.h"
#include "comm/cuda_communicator.h"
#include "comm/thread_communicator.h"
#include "cudasim/cudasim.h"
#include "gpu/train_rig.h"

using namespace lockstep;

TEST_CASE("a step on a device: the host waits for nothing, and reads the result while the next one runs") {
  const test::TemporaryDirectory directory;
  for (const bool graph : {false, true}) {
    Options options = test::small_options(directory);
    options.cuda_graph = graph;
    test::TrainRig rig(options);
    TrainStep& step = rig.engine.step();
    CHECK(step.lag() == 1);
    for (int i = 0; i < 2; ++i) step.run(rig.request(i));  // allocates
    step.enqueue(rig.request(2));                          // records
    for (int i = 3; i < 6; ++i) {
      const cudasim::Counts before = cudasim::counts();
      step.enqueue(rig.request(i));
      const cudasim::Counts after = cudasim::counts();
      CHECK(after.host_waits == before.host_waits);
      CHECK((after.launches - before.launches == 1) == graph);
      CHECK(std::isfinite(step.collect().loss));
      CHECK(step.pending() == 1);
    }
    step.collect();
  }
}

TEST_CASE("two ranks on two devices: equal weights, which do not depend on overlap, graph or order") {
  const test::TemporaryDirectory directory;
  Options options = test::small_options(directory);
  options.first_bucket_cap_mb = options.bucket_cap_mb = 0.25;
  struct Case {
    bool overlap, graph;
    cudasim::Order order;
  };
  std::string expected;
  for (const Case& c :
       {Case{true, false, cudasim::Order::forward}, Case{false, false, cudasim::Order::forward},
        Case{true, true, cudasim::Order::random}, Case{false, true, cudasim::Order::random}}) {
    INFO("overlap " << c.overlap << ", graph " << c.graph);
    options.overlap = c.overlap;
    options.cuda_graph = c.graph;
    cudasim::Config config = cudasim::config();
    config.order = c.order;
    const cudasim::Configured scope(config);
    std::vector<std::string> weights(2);
    const auto errors = test::run_ranks(2, [&](Communicator& host) {
      const int rank = host.rank();
      const auto communicator = make_cuda_communicator(host, rank, std::chrono::seconds(60));
      Engine engine(*communicator, {.kind = DeviceKind::cuda, .index = rank}, options, options, nullptr,
                    [](const std::string&) {});
      const auto indices = engine.epoch_indices(0, rank);
      for (std::int64_t i = 0; i < 4; ++i) {
        TrainStep::Request request;
        request.samples = engine.batch(indices, i);
        request.learning_rate = 1e-3;
        engine.step().enqueue(request);
        if (engine.step().pending() > engine.step().lag()) engine.step().collect();
      }
      while (engine.step().pending() > 0) engine.step().collect();
      weights[static_cast<std::size_t>(rank)] = checksum(engine.context(), engine.canonical().weights);
    });
    for (const std::string& error : errors) CHECK(error == "");
    CHECK(weights[0] == weights[1]);
    if (expected.empty()) expected = weights[0];
    CHECK(weights[0] == expected);
  }
}
