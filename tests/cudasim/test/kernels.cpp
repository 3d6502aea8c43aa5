// The CUDA backend on the simulated GPU: the shared suite, in several orders of threads and blocks.
#include <array>
#include <functional>
#include <span>

#include "catch.h"
#include "cudasim/cudasim.h"
#include "kernels/backend_suite.h"
#include "kernels/cuda/cuda_backend.h"

using namespace lockstep;

namespace {

// cuDNN has no weight gradients of 16-bit factors in f32.
const suite::Arithmetic kTypes{{DType::f32, DType::bf16, DType::f16}, true};
const suite::Arithmetic kTf32{{DType::f32}, false, true};

void in_all_orders(const std::function<void(Backend&)>& suite,
                   cuda::Precision precision = cuda::Precision::fp32) {
  struct Case {
    cudasim::Order order;
    std::uint32_t seed;
    bool eager;
  };
  const std::array<Case, 5> cases = {
      Case{cudasim::Order::forward, 0, false}, Case{cudasim::Order::reversed, 0, true},
      Case{cudasim::Order::random, 1, false}, Case{cudasim::Order::random, 2, true},
      Case{cudasim::Order::random, 3, false}};
  for (const Case& c : std::span(cases).first(CUDASIM_ORDERS)) {
    INFO("order " << static_cast<int>(c.order) << ", seed " << c.seed << (c.eager ? ", eager" : ", lazy"));
    cudasim::Config config = cudasim::config();
    config.order = c.order;
    config.seed = c.seed;
    config.eager = c.eager;
    const cudasim::Configured scope(config);
    CudaBackend backend(0, precision);
    suite(backend);
  }
  CHECK(cudasim::alive() == cudasim::Alive{});
}

}  // namespace

TEST_CASE("cuda: convolution as the reference") {
  in_all_orders([](Backend& backend) { suite::convolution(backend, kTypes); });
}
TEST_CASE("cuda: batch norm as the reference") {
  in_all_orders([](Backend& backend) { suite::batch_norm(backend, kTypes, CUDASIM_SHAPES); });
}
TEST_CASE("cuda: relu as the reference") {
  in_all_orders([](Backend& backend) { suite::relu(backend, kTypes); });
}
TEST_CASE("cuda: pooling as the reference") {
  in_all_orders([](Backend& backend) { suite::pooling(backend, kTypes); });
}
TEST_CASE("cuda: linear as the reference") {
  in_all_orders([](Backend& backend) { suite::linear(backend, kTypes); });
}
TEST_CASE("cuda: cross-entropy as the reference") {
  in_all_orders([](Backend& backend) { suite::softmax_cross_entropy(backend, kTypes); });
}
TEST_CASE("cuda: the optimiser as the reference") {
  in_all_orders([](Backend& backend) { suite::sgd(backend, kTypes); });
}
TEST_CASE("cuda: augmentation as the reference") {
  in_all_orders([](Backend& backend) { suite::augment(backend, kTypes); });
}
TEST_CASE("cuda: conversions and checks as the reference") {
  in_all_orders([](Backend& backend) { suite::utilities(backend, kTypes); });
}
TEST_CASE("cuda: products of TF32 factors as the reference's, but for the factors' rounding") {
  const auto both = [](Backend& backend) {
    suite::convolution(backend, kTf32);
    suite::linear(backend, kTf32);
  };
  in_all_orders(both, cuda::Precision::tf32);
}
