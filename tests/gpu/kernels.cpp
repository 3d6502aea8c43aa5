// The CUDA backend: the shared suite. Tags are what scripts/gpu_check gives to compute-sanitizer one by one.
#include <functional>

#include "catch.h"
#include "gpu/conditions.h"
#include "kernels/backend_suite.h"
#include "kernels/cuda/cuda_backend.h"

using namespace lockstep;

namespace {

// cuDNN has no weight gradients of 16-bit factors in f32.
const suite::Arithmetic kTypes{{DType::f32, DType::bf16, DType::f16}, true};
const suite::Arithmetic kTf32{{DType::f32}, false, true};

void check(const std::function<void(Backend&)>& suite, bool tf32 = false) {
  test::under_all_conditions([&] {
    CudaBackend backend({.kind = DeviceKind::cuda, .tf32 = tf32});
    suite(backend);
  });
}

}  // namespace

TEST_CASE("cuda: convolution as the reference", "[convolution]") {
  check([](Backend& backend) { suite::convolution(backend, kTypes); });
}
TEST_CASE("cuda: batch norm as the reference", "[batch_norm]") {
  check([](Backend& backend) { suite::batch_norm(backend, kTypes, LOCKSTEP_TEST_SHAPES); });
}
TEST_CASE("cuda: relu as the reference", "[relu]") {
  check([](Backend& backend) { suite::relu(backend, kTypes); });
}
TEST_CASE("cuda: pooling as the reference", "[pooling]") {
  check([](Backend& backend) { suite::pooling(backend, kTypes); });
}
TEST_CASE("cuda: linear as the reference", "[linear]") {
  check([](Backend& backend) { suite::linear(backend, kTypes); });
}
TEST_CASE("cuda: cross-entropy as the reference", "[cross_entropy]") {
  check([](Backend& backend) { suite::softmax_cross_entropy(backend, kTypes); });
}
TEST_CASE("cuda: the optimiser as the reference", "[optimiser]") {
  check([](Backend& backend) { suite::sgd(backend, kTypes); });
}
TEST_CASE("cuda: augmentation as the reference", "[augmentation]") {
  check([](Backend& backend) { suite::augment(backend, kTypes); });
}
TEST_CASE("cuda: conversions and checks as the reference", "[utilities]") {
  check([](Backend& backend) { suite::utilities(backend, kTypes); });
}
TEST_CASE("cuda: products of TF32 factors as the reference's, but for the factors' rounding", "[tf32]") {
  const auto both = [](Backend& backend) {
    suite::convolution(backend, kTf32);
    suite::linear(backend, kTf32);
  };
  check(both, true);
}
