// Whole steps on the simulated GPU: the host waits for nothing inside one, and a recorded step is the step.
#include "apps/training/train_step.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "apps/small_pictures.h"
#include "apps/training/engine.h"
#include "catch.h"
#include "comm/cuda_communicator.h"
#include "comm/single_communicator.h"
#include "cudasim/cudasim.h"

using namespace lockstep;

namespace {

Options small_options(const test::TemporaryDirectory& directory) {
  test::write_pictures(directory);
  Options options;
  options.data = directory.path();
  options.model = "resnet18";
  options.device = "cuda";
  options.threads = 1;
  options.batch_size = 2;
  options.lr = 1e-3;
  options.residual_gamma = 0.1;
  return options;
}

struct Rig {
  explicit Rig(const Options& options)
      : host(make_single_communicator(std::make_unique<InlineStream>(), std::make_unique<HostAllocator>())),
        communicator(make_cuda_communicator(*host, 0, std::chrono::seconds(60))),
        engine(*communicator, {.kind = DeviceKind::cuda}, options, options, nullptr,
               [](const std::string&) {}),
        indices(engine.epoch_indices(0, 0)) {}

  TrainStep::Request request(std::int64_t i) {
    TrainStep::Request next;
    next.samples = engine.batch(indices, i % engine.steps_per_epoch());
    next.epoch = i / engine.steps_per_epoch();
    next.learning_rate = 1e-3 / static_cast<double>(i + 1);
    return next;
  }
  // The losses of `steps` steps, read late, and the weights after them.
  std::vector<std::string> train(std::int64_t steps) {
    std::vector<std::string> seen;
    TrainStep& step = engine.step();
    const auto collect = [&] { seen.push_back(std::to_string(step.collect().loss)); };
    for (std::int64_t i = 0; i < steps; ++i) {
      step.enqueue(request(i));
      if (step.pending() > step.lag()) collect();
    }
    while (step.pending() > 0) collect();
    seen.push_back(checksum(engine.context(), engine.canonical().weights));
    return seen;
  }

  std::unique_ptr<Communicator> host, communicator;
  Engine engine;
  std::vector<std::int64_t> indices;
};

}  // namespace

TEST_CASE("a step on a device: the host waits for nothing, and reads the result while the next one runs") {
  const test::TemporaryDirectory directory;
  for (const bool graph : {false, true}) {
    Options options = small_options(directory);
    options.cuda_graph = graph;
    Rig rig(options);
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

TEST_CASE("a recorded step is the step, to the bit: learning rate, epoch and batch are those of each") {
  const test::TemporaryDirectory directory;
  Options options = small_options(directory);
  options.limit_train = 13;  // the last batch of an epoch has one size, the others another
  options.batch_size = 5;
  const std::vector<std::string> expected = Rig(options).train(9);
  options.cuda_graph = true;
  CHECK(Rig(options).train(9) == expected);

  // Scratch memory that moves between two steps: the recording points to the old one.
  Rig rig(options);
  const std::vector<std::string> first = rig.train(4);
  Backend& backend = rig.engine.context().backend;
  const std::int64_t generation = backend.scratch_generation();
  const std::int64_t rows = 3000, columns = 1000;
  Buffer memory(backend.allocator(), (3 * rows * columns + columns * columns) * 4);
  auto* data = static_cast<float*>(memory.data());
  const TensorView x{data, DType::f32, Layout::flat, Shape{rows, 1}};
  const TensorView y{data + rows * columns, DType::f32, Layout::flat, Shape{rows, columns}};
  const TensorView w{data + 2 * rows * columns, DType::f32, Layout::flat, Shape{columns, 1}};
  const TensorView bias{data + 3 * rows * columns, DType::f32, Layout::flat, Shape{columns}};
  backend.linear_forward(rig.engine.context().stream, x, w, bias, y);
  CHECK(backend.scratch_generation() != generation);
  for (std::int64_t i = 4; i < 9; ++i)
    CHECK(std::to_string(rig.engine.step().run(rig.request(i)).loss) ==
          expected[static_cast<std::size_t>(i)]);
}

TEST_CASE("a loss that is not finite: the device skips the step by itself, the name comes late") {
  const test::TemporaryDirectory directory;
  Rig rig(small_options(directory));
  TrainStep& step = rig.engine.step();
  Context& context = rig.engine.context();
  CHECK(!step.run(rig.request(0)).skipped);
  const TensorView weight = rig.engine.store().weight(rig.engine.store().find("layer2.0.conv1.weight"));
  const float bad = std::nanf("");
  float healthy = 0;
  context.backend.copy_to_host(context.stream, &healthy, weight.data, sizeof healthy);
  context.backend.copy_to_device(context.stream, weight.data, &bad, sizeof bad);
  const auto state = [&] {
    return checksum(context, rig.engine.canonical().buffers) +
           checksum(context, rig.engine.canonical().momenta);
  };
  const std::string before = state();
  step.enqueue(rig.request(1));
  step.enqueue(rig.request(2));
  const TrainStep::Result result = step.collect();
  CHECK(result.skipped);
  CHECK(!result.overflow);
  CHECK(result.non_finite == "layer2.0.conv1.weight");
  CHECK(step.collect().skipped);
  CHECK(state() == before);
  context.backend.copy_to_device(context.stream, weight.data, &healthy, sizeof healthy);
  CHECK(!step.run(rig.request(3)).skipped);
  CHECK(state() != before);
}

TEST_CASE("fp16 on a device: overflow, the loss scale and the step after it, recorded and not") {
  const test::TemporaryDirectory directory;
  for (const bool graph : {false, true}) {
    Options options = small_options(directory);
    options.dtype = "fp16";
    options.cuda_graph = graph;
    Rig rig(options);
    TrainStep& step = rig.engine.step();
    step.set_loss_scale({.scale = 16});
    for (int i = 0; i < 3; ++i) CHECK(!step.run(rig.request(i)).skipped);
    step.set_loss_scale({.scale = 0x1p100f});
    step.enqueue(rig.request(3));
    step.enqueue(rig.request(4));
    for (const float after : {0x1p99f, 0x1p98f}) {
      const TrainStep::Result result = step.collect();
      CHECK(result.overflow);
      CHECK(std::isfinite(result.loss));
      CHECK(result.loss_scale.scale == after);
    }
    step.set_loss_scale({.scale = 16});
    CHECK(!step.run(rig.request(5)).skipped);
  }
}
