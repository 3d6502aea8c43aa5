// One process that takes training steps, on a few pictures.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/small_pictures.h"
#include "apps/training/engine.h"
#include "apps/training/train_step.h"
#include "comm/cuda_communicator.h"
#include "comm/single_communicator.h"

namespace lockstep::test {

inline Options small_options(const TemporaryDirectory& directory) {
  write_pictures(directory);
  Options options;
  options.data = directory.path();
  options.model = "resnet18";
  options.channels = 16;
  options.device = "cuda";
  options.threads = 1;
  options.batch_size = 2;
  options.lr = 1e-3;
  options.residual_gamma = 0.1;
  return options;
}

// Every bit.
inline std::string text_of(double loss) {
  return fmt::format("{:a}", loss);
}

struct TrainRig {
  explicit TrainRig(const Options& options, DeviceKind kind = DeviceKind::cuda)
      : host(make_single_communicator(std::make_unique<InlineStream>(), std::make_unique<HostAllocator>())),
        on_device(kind == DeviceKind::cuda ? make_cuda_communicator(*host, 0, std::chrono::seconds(60))
                                           : nullptr),
        engine(on_device ? *on_device : *host, {.kind = kind}, options, options, nullptr,
               [](const std::string&) {}),
        indices(engine.epoch_indices(0, 0)) {}

  TrainStep::Request request(std::int64_t i) {
    TrainStep::Request next;
    next.samples = engine.batch(indices, i % engine.steps_per_epoch());
    next.epoch = i / engine.steps_per_epoch();
    next.learning_rate = 1e-3 / static_cast<double>(i + 1);
    return next;
  }
  // The losses of `steps` steps, read late.
  std::vector<double> losses(std::int64_t steps) {
    std::vector<double> seen;
    TrainStep& step = engine.step();
    const auto collect = [&] { seen.push_back(step.collect().loss); };
    for (std::int64_t i = 0; i < steps; ++i) {
      step.enqueue(request(i));
      if (step.pending() > step.lag()) collect();
    }
    while (step.pending() > 0) collect();
    return seen;
  }
  // The same as texts, and the weights after them.
  std::vector<std::string> train(std::int64_t steps) {
    std::vector<std::string> seen;
    for (const double loss : losses(steps)) seen.push_back(text_of(loss));
    seen.push_back(checksum(engine.context(), engine.canonical().weights));
    return seen;
  }

  std::unique_ptr<Communicator> host, on_device;
  Engine engine;
  std::vector<std::int64_t> indices;
};

}  // namespace lockstep::test
