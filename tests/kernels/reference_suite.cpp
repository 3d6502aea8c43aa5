// The suite on the reference backend itself: shows that the suite runs without any library, and that the
// reference keeps the contract where tensors overlap.
#include "catch.h"
#include "kernels/backend_suite.h"

using namespace lockstep;

TEST_CASE("reference: the backend suite") {
  const suite::Arithmetic all_types{{DType::f32, DType::bf16, DType::f16}};
  const auto backend = make_backend({DeviceKind::reference});
  suite::convolution(*backend, all_types);
  suite::batch_norm(*backend, all_types);
  suite::relu(*backend, all_types);
  suite::pooling(*backend, all_types);
  suite::linear(*backend, all_types);
  suite::softmax_cross_entropy(*backend, all_types);
  suite::sgd(*backend, all_types);
  suite::augment(*backend, all_types);
  suite::utilities(*backend, all_types);
}
