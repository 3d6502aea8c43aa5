// The law of data parallelism: N ranks that each take a micro-batch have the gradients of one process that
// averages over the same N micro-batches. (With batch norm's statistics per rank this is not the gradient of
// one large batch; with frozen statistics it is.) Ranks are threads, with the real reducer and networks.
#include <algorithm>
#include <mutex>
#include <utility>

#include "apps/training/engine.h"
#include "catch.h"
#include "comm/reducer.h"
#include "comm/thread_communicator.h"
#include "support/devices.h"
#include "support/network_runner.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr std::int64_t kSide = 16;

ResNetOptions options(const std::string& stem) {
  ResNetOptions o;
  o.name = "resnet18";
  o.stem = stem;
  o.channels = 16;
  o.height = o.width = kSide;
  return o;
}

// A global batch; part(i, n) is micro-batch i of n samples.
struct Samples {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  static constexpr std::size_t kPixels = kSide * kSide * 3;

  explicit Samples(std::size_t n) : images(n * kPixels), labels(n) {
    Philox(11, RandomStream::init).fill_normal(0, 0.0f, 1.0f, images);
    for (std::size_t i = 0; i < n; ++i) labels[i] = static_cast<std::int32_t>((7 * i) % 10);
  }
  std::span<const float> part_images(std::size_t i, std::size_t n) const {
    return std::span(images).subspan(i * n * kPixels, n * kPixels);
  }
  std::span<const std::int32_t> part_labels(std::size_t i, std::size_t n) const {
    return std::span(labels).subspan(i * n, n);
  }
};

struct Job {
  Device device;
  std::string stem = "imagenet";
  Mode mode = Mode::training;
  int ranks = 2;
  std::size_t batch = 3;  // of a micro-batch
  int micro_batches = 1;  // a rank and step; the gradients of all but the last stay on the rank
  bool overlap = true;
};

// The gradients after one step of `job`, equal on all ranks (checked).
std::vector<float> gradients_of_ranks(const Job& job, const Samples& samples) {
  std::mutex mutex;
  std::vector<std::vector<float>> results(static_cast<std::size_t>(job.ranks));
  const auto errors = run_ranks(job.ranks, [&](Communicator& communicator) {
    NetworkRunner runner(job.device, options(job.stem), static_cast<std::int64_t>(job.batch));
    runner.net.initialize(runner.context, 1);
    std::vector<std::int64_t> numels;
    std::vector<std::string> names;
    for (const Parameter& p : runner.store.parameters()) {
      numels.push_back(p.numel());
      names.push_back(p.name);
    }
    Reducer reducer(communicator, runner.context.stream,
                    plan_buckets(numels, runner.store.offsets(), bucket_caps(Options{}, 2)), names,
                    runner.store.all_gradients().as<float>(), {.overlap = job.overlap, .tracer = nullptr});
    const auto rank = static_cast<std::size_t>(communicator.rank());
    for (int m = 0; m < job.micro_batches; ++m) {
      const std::size_t part = static_cast<std::size_t>(m) * static_cast<std::size_t>(job.ranks) + rank;
      reducer.begin(m + 1 == job.micro_batches);
      runner.step(samples.part_images(part, job.batch), samples.part_labels(part, job.batch), job.mode,
                  m == 0 ? GradMode::overwrite : GradMode::accumulate,
                  [&](int first, int last) { reducer.on_gradients_ready(first, last); });
      reducer.finish();
    }
    const std::lock_guard lock(mutex);
    results[rank] = runner.to_host(runner.store.all_gradients());
  });
  for (const std::string& error : errors) REQUIRE(error.empty());
  for (const auto& result : results) REQUIRE(result == results[0]);
  for (float& g : results[0]) g /= static_cast<float>(job.micro_batches);
  return results[0];
}

// One process: the micro-batches one after the other, averaged in rank order.
std::vector<float> averaged_gradients(const Job& job, const Samples& samples) {
  NetworkRunner runner(job.device, options(job.stem), static_cast<std::int64_t>(job.batch));
  runner.net.initialize(runner.context, 1);
  std::vector<float> sum;
  for (int i = 0; i < job.ranks; ++i) {
    const auto part = static_cast<std::size_t>(i);
    runner.step(samples.part_images(part, job.batch), samples.part_labels(part, job.batch), job.mode,
                GradMode::overwrite);
    const std::vector<float> gradient = runner.to_host(runner.store.all_gradients());
    if (sum.empty()) {
      sum = gradient;
    } else {
      std::ranges::transform(sum, gradient, sum.begin(), std::plus<>());
    }
  }
  for (float& g : sum) g *= 1.0f / static_cast<float>(job.ranks);
  return sum;
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

std::vector<Device> one_thread_devices() {
  std::vector<Device> devices = host_devices();
  for (Device& device : devices) device.threads = 1;
  return devices;
}

}  // namespace

TEST_CASE("gradients of ranks equal the average over their micro-batches in one process") {
  for (const Device& device : one_thread_devices()) {
    for (const auto& [ranks, stem] :
         {std::pair{2, "imagenet"}, std::pair{2, "cifar"}, std::pair{3, "imagenet"}}) {
      INFO(name_of(device.kind) << " " << ranks << " ranks, stem " << stem);
      const Job job{.device = device, .stem = stem, .ranks = ranks};
      const Samples samples(job.batch * static_cast<std::size_t>(ranks));
      const std::vector<float> one = averaged_gradients(job, samples);
      CHECK(gradients_of_ranks(job, samples) == one);
      CHECK(std::ranges::any_of(one, [](float g) { return g != 0.0f; }));
    }
  }
}

TEST_CASE("overlap on and off give the same gradients") {
  Job job{.device = {DeviceKind::reference, 0, 1}};
  const Samples samples(6);
  const std::vector<float> on = gradients_of_ranks(job, samples);
  job.overlap = false;
  CHECK(gradients_of_ranks(job, samples) == on);
}

TEST_CASE("with frozen batch norm, ranks, micro-batches and one large batch agree") {
  for (const Device& device : one_thread_devices()) {
    INFO(name_of(device.kind));
    const Samples samples(8);
    const Job one{.device = device, .mode = Mode::frozen, .ranks = 1, .batch = 8};
    const std::vector<float> expected = gradients_of_ranks(one, samples);
    const Job four{.device = device, .mode = Mode::frozen, .ranks = 4, .batch = 2};
    CHECK(relative_distance(gradients_of_ranks(four, samples), expected) < 1e-5);
    const Job accumulated{.device = device, .mode = Mode::frozen, .ranks = 2, .batch = 2, .micro_batches = 2};
    CHECK(relative_distance(gradients_of_ranks(accumulated, samples), expected) < 1e-5);
  }
}
