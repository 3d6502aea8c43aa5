// Whole networks with frozen batch norm against PyTorch in double precision:
// tests/parity/fixtures/networks.tensors. Weights and statistics are made from Philox here and in
// tests/parity/networks.py, so this also compares both twins.
#include <algorithm>

#include "catch.h"
#include "core/rng.h"
#include "support/devices.h"
#include "support/network_runner.h"
#include "support/tensor_file.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr std::uint64_t kSeed = 3, kBufferSubstreams = std::uint64_t{1} << 40;
constexpr std::int64_t kSamples = 24;

void spread_buffers(NetworkRunner& runner) {
  for (std::size_t i = 0; i < runner.store.buffers().size(); ++i) {
    const TensorView b = runner.store.buffer(static_cast<int>(i));
    const bool mean = runner.store.buffers()[i].initial == 0.0f;
    std::vector<float> host(static_cast<std::size_t>(b.numel()));
    Philox(kSeed, RandomStream::init)
        .fill_uniform(kBufferSubstreams + i, mean ? -0.2f : 0.5f, mean ? 0.2f : 1.5f, host);
    runner.to_device(b, host);
  }
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("networks with frozen batch norm are within 1e-5 of PyTorch") {
  const TensorFile file = read_tensors(LOCKSTEP_SOURCE_DIR "/tests/parity/fixtures/networks.tensors");
  for (const Device& device : host_devices()) {
    for (const auto& [model, stem] :
         std::vector<std::pair<std::string, std::string>>{{"resnet18", "imagenet"},
                                                          {"resnet18", "cifar"},
                                                          {"resnet50", "imagenet"},
                                                          {"resnet50", "cifar"}}) {
      INFO(name_of(device.kind) << " " << model << " " << stem);
      const std::string prefix = model + "." + stem + "/";
      const FileTensor& images = file.at(prefix + "images");
      ResNetOptions options;
      options.name = model;
      options.stem = stem;
      options.height = options.width = images.dims[1];
      options.residual_gamma = 0.2f;
      NetworkRunner runner(device, options, images.dims[0]);
      runner.net.initialize(runner.context, kSeed);
      spread_buffers(runner);
      const float loss =
          runner.step(images.values, file.at(prefix + "labels").integers, Mode::frozen, GradMode::overwrite);
      CHECK(loss == Approx(file.at(prefix + "loss").values[0]).epsilon(1e-5));
      for (int i = 0; i < runner.store.count(); ++i) {
        const std::string& name = runner.store.parameter(i).name;
        const std::vector<float> gradient = runner.to_host(runner.store.gradient(i));
        const std::vector<float>& expected = file.at(prefix + "gradient/" + name).values;
        const auto count = static_cast<std::int64_t>(gradient.size());
        INFO(name);
        CHECK(norm(gradient) == Approx(expected[0]).epsilon(1e-5));
        const double largest = *std::ranges::max_element(gradient, {}, [](float v) { return std::abs(v); });
        const std::int64_t stride = std::max<std::int64_t>(1, count / kSamples);
        for (std::size_t s = 1; s < expected.size(); ++s) {
          const float actual = gradient[(s - 1) * static_cast<std::size_t>(stride)];
          CHECK(actual == Approx(expected[s]).epsilon(0).margin(1e-5 * std::abs(largest)));
        }
      }
    }
  }
}
