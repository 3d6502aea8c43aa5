// The step object with ranks as threads: what a loss that is not finite on one rank does to all, where
// overlap and the place of the update must not be seen, and weight decay by parameter.
#include "apps/training/train_step.h"

#include <cmath>
#include <csignal>
#include <limits>
#include <mutex>

#include "apps/small_pictures.h"
#include "apps/temporary_directory.h"
#include "apps/training/engine.h"
#include "catch.h"
#include "comm/thread_communicator.h"

using namespace lockstep;
using test::run_ranks;
using test::TemporaryDirectory;

namespace {

Options small_options(const TemporaryDirectory& directory) {
  Options options;
  options.data = directory.path();
  options.model = "resnet18";
  options.channels = 16;
  options.device = "reference";
  options.threads = 1;
  options.batch_size = 2;
  options.weight_decay = 0.01;
  return options;
}

std::string checksums(Engine& engine) {
  const CanonicalModel& model = engine.canonical();
  return checksum(engine.context(), model.weights) + " " + checksum(engine.context(), model.buffers) + " " +
         checksum(engine.context(), model.momenta);
}

TrainStep::Result step(Engine& engine, std::int64_t index, int signal = 0, double learning_rate = 0.1) {
  const auto indices = engine.epoch_indices(0, engine.communicator().rank());
  TrainStep::Request request;
  request.samples = engine.batch(indices, index);
  request.learning_rate = learning_rate;
  request.signal = signal;
  return engine.step().run(request);
}

// Runs body on an engine of each rank and expects no error.
void on_engines(const Options& options, int ranks, const std::function<void(Engine&)>& body) {
  const auto errors = run_ranks(ranks, [&](Communicator& communicator) {
    Engine engine(communicator, device_of(options, 0), options, options, nullptr, [](const std::string&) {});
    body(engine);
  });
  for (const std::string& error : errors) CHECK(error == "");
}

std::string checksums_after_two_steps(const Options& options, int ranks) {
  std::string result;
  std::mutex mutex;
  on_engines(options, ranks, [&](Engine& engine) {
    step(engine, 0);
    step(engine, 1);
    engine.broadcast_statistics();
    const std::string mine = checksums(engine);
    const std::lock_guard lock(mutex);
    CHECK((result.empty() || result == mine));
    result = mine;
  });
  return result;
}

}  // namespace

TEST_CASE("a loss that is not finite on one rank: all skip, nothing changes, the tensor is named") {
  const TemporaryDirectory directory;
  test::write_pictures(directory);
  struct Case {
    const char* poisoned;
    float value;
    const char* named;
  };
  const Case example = GENERATE(
      Case{"layer2.0.conv1.weight", std::numeric_limits<float>::quiet_NaN(), "layer2.0.conv1.weight"},
      Case{"layer1.1.bn2.weight", std::numeric_limits<float>::infinity(), "layer1.1.bn2.weight"},
      Case{"layer2.0.conv1.weight", 3e38f, "the activations that go into layer2.0.bn1"},
      Case{"fc.bias", std::numeric_limits<float>::infinity(), "fc.bias"});
  on_engines(small_options(directory), 2, [&](Engine& engine) {
    const bool last = engine.communicator().rank() == 1;
    CHECK(!step(engine, 0).skipped);
    const TensorView weight = engine.store().weight(engine.store().find(example.poisoned));
    const float healthy = weight.as<float>()[0];
    if (last) std::fill_n(weight.as<float>(), weight.numel() > 1000 ? 9 : 1, example.value);
    const std::string before = checksums(engine);
    const TrainStep::Result result = step(engine, 1);
    CHECK(result.skipped);
    CHECK(result.own_loss_finite == !last);
    CHECK(result.non_finite == (last ? example.named : ""));
    CHECK(!result.overflow);
    CHECK(checksums(engine) == before);
    if (last) std::fill_n(weight.as<float>(), weight.numel() > 1000 ? 9 : 1, healthy);
    const TrainStep::Result next = step(engine, 1);
    CHECK(!next.skipped);
    CHECK(checksums(engine) != before);
  });
}

TEST_CASE("a signal at one rank is known to all after the step, which is taken") {
  const TemporaryDirectory directory;
  test::write_pictures(directory);
  on_engines(small_options(directory), 2, [&](Engine& engine) {
    const bool last = engine.communicator().rank() == 1;
    const std::string before = checksums(engine);
    CHECK(step(engine, 0, last ? SIGTERM : 0).signal == SIGTERM);
    CHECK(checksums(engine) != before);
    CHECK(step(engine, 1, last ? 0 : SIGINT).signal == SIGINT);
    CHECK(step(engine, 0).signal == 0);
  });
}

TEST_CASE("overlap and bucket sizes do not change a bit") {
  const TemporaryDirectory directory;
  test::write_pictures(directory);
  for (const int ranks : {1, 2}) {
    Options options = small_options(directory);
    const std::string expected = checksums_after_two_steps(options, ranks);
    options.overlap = false;
    CHECK(checksums_after_two_steps(options, ranks) == expected);
    options.overlap = true;
    options.first_bucket_cap_mb = options.bucket_cap_mb = 0.1;
    CHECK(checksums_after_two_steps(options, ranks) == expected);
  }
}

TEST_CASE("the loss of a step is the mean over the ranks") {
  const TemporaryDirectory directory;
  test::write_pictures(directory);
  std::vector<double> of_both(2), alone(2);
  on_engines(small_options(directory), 2, [&](Engine& engine) {
    const auto rank = static_cast<std::size_t>(engine.communicator().rank());
    TrainStep::Request request;
    const auto indices = engine.epoch_indices(0, engine.communicator().rank());
    request.samples = engine.batch(indices, 0);
    request.communicate = false;
    alone[rank] = engine.step().run(request).loss;
    of_both[rank] = step(engine, 0).loss;
  });
  CHECK(of_both[0] == of_both[1]);
  CHECK(of_both[0] == Approx((alone[0] + alone[1]) / 2).epsilon(1e-6));
  CHECK(alone[0] != alone[1]);
}

TEST_CASE("--no-bias-decay leaves exactly batch norm and biases out") {
  const TemporaryDirectory directory;
  test::write_pictures(directory);
  Options options = small_options(directory);
  for (const bool no_bias_decay : {false, true}) {
    options.no_bias_decay = no_bias_decay;
    on_engines(options, 1, [&](Engine& engine) {
      ParameterStore& store = engine.store();
      // Without gradients only weight decay is left: v = decay * w.
      std::fill_n(store.all_gradients().as<float>(), store.flat_size(), 0.0f);
      std::fill_n(store.all_weights().as<float>(), store.flat_size(), 1.0f);
      Optimizer optimizer(store, {0.9, options.weight_decay, false, no_bias_decay});
      float rate = 0.1f;  // the reference backend reads host memory
      const TensorView learning_rate{&rate, DType::f32, Layout::flat, Shape{1}};
      optimizer.update(engine.context(), {learning_rate, {}, {}}, 0, store.count() - 1);
      for (int p = 0; p < store.count(); ++p) {
        const std::string& name = store.parameter(p).name;
        const bool excluded = name.find("bn") != std::string::npos || name.ends_with("bias") ||
                              name.find("downsample.1") != std::string::npos;
        INFO(name);
        const float expected = excluded && no_bias_decay ? 0.0f : 0.01f;
        CHECK(store.momentum(p).as<float>()[store.parameter(p).numel() - 1] == expected);
      }
    });
  }
}

TEST_CASE("fp16: a gradient that overflows skips the step on all ranks and halves the loss scale") {
  const TemporaryDirectory directory;
  test::write_pictures(directory);
  Options options = small_options(directory);
  options.dtype = "fp16";
  on_engines(options, 2, [&](Engine& engine) {
    engine.step().set_loss_scale({.scale = 16});
    CHECK(!step(engine, 0, 0, 1e-3).skipped);
    const std::string before = checksums(engine);
    engine.step().set_loss_scale({.scale = 0x1p100f, .good_steps = 7});
    const TrainStep::Result result = step(engine, 1);
    CHECK(result.skipped);
    CHECK(result.overflow);
    CHECK(std::isfinite(result.loss));
    CHECK(result.own_loss_finite);
    CHECK(result.non_finite.empty());
    CHECK(result.loss_scale.scale == 0x1p99f);
    CHECK(result.loss_scale.good_steps == 0);
    CHECK(checksums(engine) == before);

    CHECK(!result.overflow_at_floor);

    // A scale that overflows and is not above the floor: with its sign no step of a run has one.
    engine.step().set_loss_scale({.scale = -0x1p100f});
    const TrainStep::Result last = step(engine, 1);
    CHECK(last.overflow_at_floor);
    CHECK(last.loss_scale.scale == TrainStep::kScaling.floor);
    CHECK(last.non_finite == "conv1.weight");
    CHECK(checksums(engine) == before);

    engine.step().set_loss_scale({.scale = 16, .good_steps = TrainStep::kScaling.growth_interval - 1});
    const TrainStep::Result grown = step(engine, 1);
    CHECK(!grown.skipped);
    CHECK(grown.loss_scale.scale == 32);
    CHECK(checksums(engine) != before);
  });
}

TEST_CASE("fp16: the loss scale, a power of two, does not change what is learnt") {
  const TemporaryDirectory directory;
  test::write_pictures(directory);
  Options options = small_options(directory);
  options.dtype = "fp16";
  std::vector<double> losses;
  for (const float scale : {4.0f, 32.0f}) {
    on_engines(options, 1, [&](Engine& engine) {
      engine.step().set_loss_scale({.scale = scale});
      CHECK(!step(engine, 0, 0, 1e-3).skipped);
      losses.push_back(step(engine, 1).loss);
    });
  }
  CHECK(losses[0] == Approx(losses[1]).epsilon(1e-3));
}
