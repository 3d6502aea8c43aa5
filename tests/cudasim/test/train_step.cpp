// Whole steps on the simulated GPU, which counts what the host waits for. tests/gpu/train_step.cpp has the
// rest.
#include <cmath>

#include "catch.h"
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
