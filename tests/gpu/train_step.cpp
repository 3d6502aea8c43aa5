// Whole steps on a device: the losses are those of the reference loops, and a recorded step is the step.
#include "apps/training/train_step.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "core/cuda_stream.h"
#include "gpu/train_rig.h"

using namespace lockstep;

// Sums in another order, in a network that is damped (last gamma of each block 0.1, small learning rate,
// enough samples in a batch norm) so that the difference does not grow from step to step: 3e-7 in fp32 on the
// simulated GPU. Where bf16 rounds to neighbours it becomes 5e-3.
TEST_CASE("the losses of a device are those of the reference loops", "[long]") {
  const test::TemporaryDirectory directory;
  for (const auto& [dtype, tolerance] : {std::pair{"fp32", 1e-4}, std::pair{"bf16", 0.03}}) {
    INFO(dtype);
    Options options = test::small_options(directory);
    options.dtype = dtype;
    options.batch_size = 8;
    const std::vector<double> expected = test::TrainRig(options, DeviceKind::reference).losses(4);
    const std::vector<double> actual = test::TrainRig(options).losses(4);
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) CHECK(std::abs(actual[i] - expected[i]) < tolerance);
  }
}

TEST_CASE("a recorded step is the step, to the bit: learning rate, epoch and batch are those of each") {
  const test::TemporaryDirectory directory;
  Options options = test::small_options(directory);
  options.limit_train = 13;  // the last batch of an epoch has one size, the others another
  options.batch_size = 5;
  const std::vector<std::string> expected = test::TrainRig(options).train(9);
  options.cuda_graph = true;
  CHECK(test::TrainRig(options).train(9) == expected);

  // Scratch memory that moves between two steps: the recording points to the old one.
  test::TrainRig rig(options);
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
    CHECK(test::text_of(rig.engine.step().run(rig.request(i)).loss) == expected[static_cast<std::size_t>(i)]);
  CHECK(checksum(rig.engine.context(), rig.engine.canonical().weights) == expected.back());
}

TEST_CASE("a loss that is not finite: the device skips the step by itself, the name comes late") {
  const test::TemporaryDirectory directory;
  test::TrainRig rig(test::small_options(directory));
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
    Options options = test::small_options(directory);
    options.dtype = "fp16";
    options.cuda_graph = graph;
    test::TrainRig rig(options);
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

TEST_CASE("a step that is under way when its objects go has come to its end") {
  const test::TemporaryDirectory directory;
  for (const bool graph : {false, true}) {
    Options options = test::small_options(directory);
    options.cuda_graph = graph;
    test::TrainRig rig(options);
    for (int i = 0; i < 2; ++i) rig.engine.step().run(rig.request(i));
    rig.engine.step().enqueue(rig.request(2));
    rig.engine.step().enqueue(rig.request(3));
  }
  CudaStream stream(0);
  CHECK_NOTHROW(stream.synchronize());  // the device has lost nothing
}
