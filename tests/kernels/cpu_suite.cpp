// The shared suite on the CPU backend, alone and with a team of threads.
#include "catch.h"
#include "kernels/backend_suite.h"

using namespace lockstep;

TEST_CASE("cpu: the backend suite") {
  for (const int threads : {1, 2, 3}) {
    INFO(threads << " threads");
    const auto backend = make_cpu_backend(threads);
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
}
