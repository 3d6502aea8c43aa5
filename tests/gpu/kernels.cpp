// The CUDA backend: the shared suite. Tags are what scripts/gpu_check gives to compute-sanitizer one by one.
#include "catch.h"
#include "gpu/conditions.h"
#include "kernels/backend_suite.h"
#include "kernels/cuda/cuda_backend.h"

using namespace lockstep;

namespace {

void check(void (*suite)(Backend&)) {
  test::under_all_conditions([suite] {
    CudaBackend backend(0);
    suite(backend);
  });
}

}  // namespace

TEST_CASE("cuda: convolution as the reference", "[convolution]") {
  check([](Backend& backend) { suite::convolution(backend, DType::bf16); });
}
TEST_CASE("cuda: batch norm as the reference", "[batch_norm]") {
  check([](Backend& backend) { suite::batch_norm(backend, LOCKSTEP_TEST_SHAPES); });
}
TEST_CASE("cuda: relu as the reference", "[relu]") {
  check(suite::relu);
}
TEST_CASE("cuda: pooling as the reference", "[pooling]") {
  check(suite::pooling);
}
TEST_CASE("cuda: linear as the reference", "[linear]") {
  check(suite::linear);
}
TEST_CASE("cuda: cross-entropy as the reference", "[cross_entropy]") {
  check(suite::softmax_cross_entropy);
}
TEST_CASE("cuda: the optimiser as the reference", "[optimiser]") {
  check(suite::sgd);
}
TEST_CASE("cuda: augmentation as the reference", "[augmentation]") {
  check(suite::augment);
}
TEST_CASE("cuda: conversions and checks as the reference", "[utilities]") {
  check(suite::utilities);
}
