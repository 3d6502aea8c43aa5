// Whole networks on the reference backend: memory, order, modes and initial values.
#include "models/resnet.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "catch.h"
#include "support/harness.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// A ResNet-18 on small pictures, initialised, with memory for `batch` samples.
struct Network : Harness {
  HostAllocator host;
  ParameterStore store;
  ResNet net;
  std::optional<Arena> arena;
  std::vector<int> announced;

  explicit Network(std::int64_t batch, const std::string& stem = "imagenet", std::int64_t side = 32,
                   DType compute = DType::f32)
      : net(options(stem, side), store) {
    store.allocate(host, host, compute);
    Arena measuring;
    net.layout(measuring, batch, compute);
    arena.emplace(host, measuring.peak());
    net.layout(*arena, batch, compute);
    net.initialize(context, 1);
  }
  static ResNetOptions options(const std::string& stem, std::int64_t side) {
    ResNetOptions o;
    o.name = "resnet18";
    o.stem = stem;
    o.height = o.width = side;
    return o;
  }

  // Sample i of the batch is the same whatever the batch.
  void write_input(std::int64_t n) {
    const TensorView x = net.input(n);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto sample = values(x).subspan(static_cast<std::size_t>(i * x.numel() / n),
                                            static_cast<std::size_t>(x.numel() / n));
      Philox(9, RandomStream::init).fill_normal(static_cast<std::uint64_t>(i), 0.0f, 1.0f, sample);
    }
  }
  void backward(std::int64_t n, Mode mode) {
    announced.clear();
    const TensorView dlogits = net.logits_gradient(n);
    Philox(9, RandomStream::init).fill_normal(1000, 0.0f, 1.0f, values(dlogits));
    net.backward(context, n, mode, GradMode::overwrite, [&](int first, int last) {
      for (int i = first; i <= last; ++i) announced.push_back(i);
    });
  }
  std::vector<float> logits(std::int64_t n, Mode mode) {
    const auto span = values(net.forward(context, n, mode));
    return {span.begin(), span.end()};
  }
  std::vector<float> copy(const TensorView& t) { return {values(t).begin(), values(t).end()}; }
};

}  // namespace

TEST_CASE("gradients are announced once each, in index order") {
  for (const std::string stem : {"imagenet", "cifar"}) {
    Network network(2, stem, 16);
    network.write_input(2);
    network.logits(2, Mode::frozen);
    network.backward(2, Mode::frozen);
    REQUIRE(static_cast<int>(network.announced.size()) == network.store.count());
    for (int i = 0; i < network.store.count(); ++i)
      REQUIRE(network.announced[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE("activations and gradients of ResNet-50 stay small") {
  ResNetOptions options;
  ParameterStore store;
  ResNet net(options, store);
  Arena arena;
  net.layout(arena, 32, DType::f32);
  const double mib = static_cast<double>(arena.peak()) / (1 << 20);
  // Every convolution's and every batch norm's output is kept for backward; the gradients add four buffers.
  CHECK(mib < 75);
  CHECK(mib > 40);
  Arena half;
  net.layout(half, 32, DType::bf16);
  CHECK(static_cast<double>(half.peak()) < 0.51 * static_cast<double>(arena.peak()));
}

TEST_CASE("a real arena of the measured size is large enough, a smaller one is an error") {
  ParameterStore store;
  ResNet net(Network::options("cifar", 8), store);
  Arena measuring;
  net.layout(measuring, 3, DType::f32);
  HostAllocator host;
  Arena exact(host, measuring.peak());
  net.layout(exact, 3, DType::f32);
  CHECK(exact.peak() == measuring.peak());
  CHECK(exact.used() == exact.peak());  // the next tensor overlaps none of these
  Arena small(host, measuring.peak() - 1);
  CHECK_THROWS_AS(net.layout(small, 3, DType::f32), Error);
}

TEST_CASE("a part of a batch gives what a network laid out for it gives") {
  Network large(3), exact(2);
  large.write_input(3);
  large.logits(3, Mode::training);
  large.backward(3, Mode::training);
  large.net.initialize(large.context, 1);  // running statistics too
  for (Network* network : {&large, &exact}) network->write_input(2);
  CHECK(large.logits(2, Mode::training) == exact.logits(2, Mode::training));
  large.backward(2, Mode::training);
  exact.backward(2, Mode::training);
  CHECK(large.copy(large.store.all_gradients()) == exact.copy(exact.store.all_gradients()));
  CHECK(large.copy(large.store.all_buffers()) == exact.copy(exact.store.all_buffers()));
}

TEST_CASE("training moves the running statistics, evaluation and frozen mode do not") {
  Network network(2, "cifar", 8);
  network.write_input(2);
  const auto before = network.copy(network.store.all_buffers());
  const auto evaluated = network.logits(2, Mode::evaluation);
  CHECK(network.logits(2, Mode::frozen) == evaluated);
  CHECK(network.copy(network.store.all_buffers()) == before);
  CHECK(network.logits(2, Mode::training) != evaluated);
  CHECK(network.copy(network.store.all_buffers()) != before);
}

TEST_CASE("evaluation and frozen mode treat every sample alone") {
  Network network(3, "cifar", 8);
  network.write_input(3);
  auto three = network.logits(3, Mode::evaluation);
  three.resize(20);
  CHECK(network.logits(2, Mode::evaluation) == three);
}

TEST_CASE("padding between parameters stays zero") {
  Network network(2);
  network.write_input(2);
  network.logits(2, Mode::training);
  network.backward(2, Mode::training);
  for (int i = 0; i + 1 < network.store.count(); ++i) {
    const Parameter& p = network.store.parameter(i);
    for (std::int64_t e = p.offset + p.numel(); e < network.store.parameter(i + 1).offset; ++e) {
      REQUIRE(network.store.all_weights().as<float>()[e] == 0.0f);
      REQUIRE(network.store.all_gradients().as<float>()[e] == 0.0f);
    }
  }
}

TEST_CASE("the smallest batch norm") {
  ParameterStore store;
  const ResNet imagenet(Network::options("imagenet", 32), store);
  CHECK(imagenet.smallest_batch_norm_rows(1) == 1);
  CHECK(imagenet.smallest_batch_norm_rows(5) == 5);
  ParameterStore other;
  const ResNet cifar(Network::options("cifar", 32), other);
  CHECK(cifar.smallest_batch_norm_rows(2) == 32);
}

TEST_CASE("initial values are torchvision's distributions") {
  ResNetOptions options = Network::options("imagenet", 32);
  options.residual_gamma = 0.25f;
  Harness harness;
  HostAllocator host;
  ParameterStore store;
  ResNet net(options, store);
  store.allocate(host, host, DType::bf16);
  net.initialize(harness.context, 5);
  const auto moments = [&](const char* name) {
    const auto w = values(store.weight(store.find(name)));
    double sum = 0, squares = 0;
    for (const float v : w) {
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    const auto n = static_cast<double>(w.size());
    return std::pair{sum / n, std::sqrt(squares / n)};
  };
  // 2,359,296 values: the standard error of the deviation is 0.05%.
  const auto [mean, deviation] = moments("layer4.1.conv2.weight");
  CHECK(std::abs(mean) < 1e-4);
  CHECK(deviation == Approx(std::sqrt(2.0 / (512 * 9))).epsilon(0.003));
  CHECK(moments("conv1.weight").second == Approx(std::sqrt(2.0 / (64 * 49))).epsilon(0.03));
  const auto fc = values(store.weight(store.find("fc.weight")));
  const float bound = 1.0f / std::sqrt(512.0f);
  CHECK(*std::ranges::max_element(fc) <= bound);
  CHECK(*std::ranges::max_element(fc) > 0.99f * bound);
  CHECK(*std::ranges::min_element(fc) < -0.99f * bound);
  CHECK(values(store.weight(store.find("layer1.0.bn2.weight")))[3] == 0.25f);
  CHECK(values(store.weight(store.find("layer1.0.bn1.weight")))[3] == 1.0f);
  CHECK(values(store.weight(store.find("layer2.0.downsample.1.weight")))[3] == 1.0f);
  CHECK(values(store.weight(store.find("layer2.0.downsample.1.bias")))[3] == 0.0f);
  CHECK(values(store.buffer(0))[3] == 0.0f);
  CHECK(values(store.buffer(1))[3] == 1.0f);

  // Chunks and parameters have random numbers of their own, and the working copy is the rounded master.
  const auto w = values(store.weight(store.find("layer4.1.conv2.weight")));
  CHECK(w[0] != w[65536]);
  CHECK(w[0] != values(store.weight(store.find("layer4.1.conv1.weight")))[0]);
  const TensorView working = store.working(store.find("layer4.1.conv2.weight"));
  CHECK(working.as<bfloat16>()[70000].bits == bfloat16(w[70000]).bits);
}
