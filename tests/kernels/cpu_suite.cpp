// The shared suite on the CPU backend, alone and with a team of threads.
#include "catch.h"
#include "kernels/backend_suite.h"
#include "kernels/host_tensor.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("cpu: the backend suite") {
  for (const int threads : {1, 2, 3}) {
    INFO(threads << " threads");
    const auto backend = make_cpu_backend(threads);
    suite::convolution(*backend, {});
    suite::batch_norm(*backend, {});
    suite::relu(*backend, {});
    suite::pooling(*backend, {});
    suite::linear(*backend, {});
    suite::softmax_cross_entropy(*backend, {});
    suite::sgd(*backend, {});
    suite::augment(*backend, {});
    suite::utilities(*backend, {});
  }
}

TEST_CASE("cpu: f16 is refused by name") {
  const auto backend = make_cpu_backend(1);
  const auto stream = backend->make_compute_stream();
  const auto tensor = [&](const Shape& shape, DType type = DType::f16) {
    return TestTensor(*backend, *stream, type, Layout::nhwc, shape,
                      Values(static_cast<std::size_t>(shape.numel()), 1.0));
  };
  const auto x = tensor({2, 1, 1, 32}), y = tensor({2, 1, 1, 32}), w = tensor({32, 1, 1, 32});
  const auto row = tensor({2, 32}), to = tensor({2, 32}), matrix = tensor({32, 32});
  const auto dw = tensor({32, 1, 1, 32}, DType::f32), wide = tensor({2, 32}, DType::f32),
             bias = tensor({32}, DType::f32);
  const ConvShape s{2, 1, 1, 32, 32};
  const std::function<void()> calls[] = {
      [&] { backend->conv2d_forward(*stream, s, x, w, y); },
      [&] { backend->conv2d_backward_data(*stream, s, y, w, x, GradMode::overwrite); },
      [&] { backend->conv2d_backward_weight(*stream, s, x, y, dw, GradMode::overwrite); },
      [&] { backend->linear_forward(*stream, row, matrix, bias, to); },
      [&] { backend->relu_forward(*stream, row, to); },
      [&] { backend->cast(*stream, wide, to); },
  };
  for (const auto& call : calls) {
    try {
      call();
      FAIL("f16 was taken");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      CHECK(std::string(error.what()).find("f16: use bf16") != std::string::npos);
    }
  }
}
