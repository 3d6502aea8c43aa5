// The CUDA backend on the simulated GPU: the shared suite, in several orders of threads and blocks.
#include <array>
#include <span>

#include "catch.h"
#include "cudasim/cudasim.h"
#include "kernels/backend_suite.h"
#include "kernels/cuda/cuda_backend.h"

using namespace lockstep;

namespace {

void in_all_orders(void (*suite)(Backend&)) {
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
    CudaBackend backend(0);
    suite(backend);
  }
  CHECK(cudasim::alive() == cudasim::Alive{});
}

}  // namespace

TEST_CASE("cuda: convolution as the reference") {
  in_all_orders([](Backend& backend) { suite::convolution(backend, DType::bf16); });
}
TEST_CASE("cuda: batch norm as the reference") {
  in_all_orders([](Backend& backend) { suite::batch_norm(backend, CUDASIM_SHAPES); });
}
TEST_CASE("cuda: relu as the reference") {
  in_all_orders(suite::relu);
}
TEST_CASE("cuda: pooling as the reference") {
  in_all_orders(suite::pooling);
}
TEST_CASE("cuda: linear as the reference") {
  in_all_orders(suite::linear);
}
TEST_CASE("cuda: cross-entropy as the reference") {
  in_all_orders(suite::softmax_cross_entropy);
}
TEST_CASE("cuda: the optimiser as the reference") {
  in_all_orders(suite::sgd);
}
TEST_CASE("cuda: augmentation as the reference") {
  in_all_orders(suite::augment);
}
TEST_CASE("cuda: conversions and checks as the reference") {
  in_all_orders(suite::utilities);
}
