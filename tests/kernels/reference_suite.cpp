// The suite on the reference backend itself: shows that the suite runs without any library, and that the
// reference keeps the contract where tensors overlap.
#include "catch.h"
#include "kernels/backend_suite.h"

using namespace lockstep;

TEST_CASE("reference: the backend suite") {
  const auto backend = make_backend({DeviceKind::reference});
  suite::convolution(*backend);
  suite::batch_norm(*backend);
  suite::relu(*backend);
  suite::pooling(*backend);
  suite::linear(*backend);
  suite::softmax_cross_entropy(*backend);
  suite::sgd(*backend);
  suite::augment(*backend);
  suite::utilities(*backend);
}
