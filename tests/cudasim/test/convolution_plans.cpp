// Which plans the real cuDNN gives the convolutions of ResNets for GPUs that are not here, and what becomes
// of a plan that a device refuses. tests/gpu/convolution_plans.cpp has what every device shows.
#include "kernels/cuda/convolution_plans.h"

#include <cmath>

#include "catch.h"
#include "core/error.h"
#include "cudasim/cudasim.h"
#include "cudasim/cudnn/cudnn_double.h"
#include "gpu/plan_sweep.h"
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/test_tensor.h"
#include "kernels/twins.h"

using namespace lockstep;
using namespace lockstep::test;
using cuda::ConvolutionPlan;
using cuda::DeviceProperties;
using cuda::Direction;
using cuda::Precision;

namespace {

constexpr ConvShape kSmall{2, 5, 7, 4, 8, 3, 2, 1};

}  // namespace

TEST_CASE("cuDNN has plans for every convolution of every ResNet", "[long]") {
  for (const char* gpu : {"h200", "a100", "rtx4090"}) {
    INFO(gpu);
    Sweep sweep(DeviceProperties::from_json(cudasim::gpu_properties(gpu)));
    for (const std::int64_t batch : {1, 32, 256}) {
      if (batch != 32 && gpu != std::string("h200")) continue;
      sweep.networks(batch, 32);
      sweep.networks(batch, 224);
    }
    fmt::print("{}: {} plans, the largest workspace {:.1f} MiB\n", gpu, sweep.count,
               static_cast<double>(sweep.largest) / (1 << 20));
  }
}

namespace {

// To 11 significant bits, ties away from zero.
Values to_tf32(Values values) {
  for (double& value : values) {
    int exponent = 0;
    const double mantissa = std::frexp(value, &exponent);
    value = std::ldexp(std::round(std::ldexp(mantissa, 11)), exponent - 11);
  }
  return values;
}

// A factor of products. The tested side gets it as it is; the reference gets it rounded, or as it is, too.
struct Factors {
  Factors(Twins& twins, Layout layout, const Shape& shape)
      : exact(twins.uniform(DType::f32, layout, shape)),
        rounded(twins.values(DType::f32, layout, shape, to_tf32(exact.expected()))) {}

  const TensorView& of(int side, bool round) const { return (side == 0 && round ? rounded : exact)[side]; }
  Pair exact, rounded;
};

}  // namespace

TEST_CASE("tf32 rounds factors to 10 bits of mantissa and nothing else") {
  CudaBackend backend({.kind = DeviceKind::cuda, .tf32 = true});
  Twins twins(backend);
  const ConvShape s{2, 6, 6, 64, 32, 3, 1, 1};
  const Factors x(twins, Layout::nhwc, {2, 6, 6, 64}), w(twins, Layout::ohwi, {32, 3, 3, 64}),
      dy(twins, Layout::nhwc, {2, 6, 6, 32});
  const Factors rows(twins, Layout::flat, {5, 64}), matrix(twins, Layout::flat, {10, 64}),
      gradient(twins, Layout::flat, {5, 10});
  const Pair bias = twins.uniform(DType::f32, Layout::flat, {10});
  for (const bool round : {true, false}) {
    const Pair y = twins.poisoned(DType::f32, Layout::nhwc, {2, 6, 6, 32});
    const Pair dx = twins.poisoned(DType::f32, Layout::nhwc, {2, 6, 6, 64});
    const Pair dw = twins.poisoned(DType::f32, Layout::ohwi, {32, 3, 3, 64});
    const Pair out = twins.poisoned(DType::f32, Layout::flat, {5, 10});
    const Pair drows = twins.poisoned(DType::f32, Layout::flat, {5, 64});
    const Pair dmatrix = twins.poisoned(DType::f32, Layout::flat, {10, 64});
    const Pair dbias = twins.poisoned(DType::f32, Layout::flat, {10});
    twins.run([&](Backend& b, Stream& stream, int i) {
      b.conv2d_forward(stream, s, x.of(i, round), w.of(i, round), y[i]);
      b.conv2d_backward_data(stream, s, dy.of(i, round), w.of(i, round), dx[i], GradMode::overwrite);
      b.conv2d_backward_weight(stream, s, x.of(i, round), dy.of(i, round), dw[i], GradMode::overwrite);
      b.linear_forward(stream, rows.of(i, round), matrix.of(i, round), bias[i], out[i]);
      b.linear_backward_data(stream, gradient.of(i, round), matrix.of(i, round), drows[i]);
      b.linear_backward_weight(stream, rows.of(i, round), gradient.of(i, round), dmatrix[i], dbias[i],
                               GradMode::overwrite);
    });
    // Sums of at most 576 products: as the suite's f32 tolerance.
    const Tolerance sums{578 * kUnit, 2 * kUnit};
    for (const Pair* result : {&y, &dx, &dw, &out, &drows, &dmatrix}) {
      CHECK((compare(result->expected(), result->actual(), sums) == "") == round);
    }
    // Not a product, and so of the values as they are.
    CHECK((compare(dbias.expected(), dbias.actual(), sums) == "") == !round);
  }
}

TEST_CASE("f16 convolutions run on tensor cores, and what leaves the range is an infinity") {
  const ConvShape s{1, 2, 2, 8, 8, 1, 1, 0};
  const auto h200 = DeviceProperties::from_json(cudasim::gpu_properties("h200"));
  CHECK(
      ConvolutionPlan({Direction::forward, s, DType::f16, false}, h200, Precision::fp32).uses_tensor_cores());
  CudaBackend backend({.kind = DeviceKind::cuda});
  Twins twins(backend);
  const Pair x = twins.values(DType::f16, Layout::nhwc, {1, 2, 2, 8}, Values(32, 100));
  Values weights(64, 81);
  std::fill(weights.begin() + 8, weights.end(), 82);  // 64800 for the first channel, 65600 for the others
  const Pair w = twins.values(DType::f16, Layout::ohwi, {8, 1, 1, 8}, weights);
  const Pair y = twins.poisoned(DType::f16, Layout::nhwc, {1, 2, 2, 8});
  twins.run([&](Backend& b, Stream& stream, int i) { b.conv2d_forward(stream, s, x[i], w[i], y[i]); });
  check_equal("y", y, kExact);
  CHECK(y.actual()[0] == 64800);
  CHECK(std::isinf(y.actual()[1]));
}

TEST_CASE("a simulated device has the properties of its GPU") {
  CHECK(DeviceProperties::of_device(0).json().find("NVIDIA H200") != std::string::npos);
}

TEST_CASE("a device that refuses a plan is given the next one, and told of once") {
  cuda::Workspace workspace{CudaAllocator(0)};
  std::vector<std::string> told;
  cuda::Convolutions convolutions(DeviceProperties::of_device(0), workspace, Precision::fp32, false,
                                  [&](const std::string& text) { told.push_back(text); });
  CudaBackend backend({.kind = DeviceKind::cuda});
  const auto stream = backend.make_compute_stream();
  const TestTensor x(backend, *stream, DType::f32, Layout::nhwc, {2, 5, 7, 4}, uniform(280, -1, 1, 1));
  const TestTensor w(backend, *stream, DType::f32, Layout::ohwi, {8, 3, 3, 4}, uniform(288, -1, 1, 2));
  const TestTensor y(backend, *stream, DType::f32, Layout::nhwc, {2, 3, 4, 8}, {});
  const auto run = [&] { convolutions.conv2d_forward(*stream, kSmall, x, w, y); };
  run();
  const Values expected = y.read();
  cudasim::refuse_plans(1);
  run();
  run();
  CHECK(told.size() == 1);
  CHECK(y.read() == expected);
  cudasim::refuse_plans(1000);
  CHECK_THROWS_AS(run(), Error);
  cudasim::refuse_plans(0);
}

TEST_CASE("autotune: the fastest candidate is kept, and gives the result that was asked for") {
  for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
    cuda::Workspace workspace{CudaAllocator(0)};
    const auto refused = [](const std::string& text) { FAIL(text); };
    cuda::Convolutions plain(DeviceProperties::of_device(0), workspace, Precision::fp32, false, refused);
    cuda::Convolutions tuned(DeviceProperties::of_device(0), workspace, Precision::fp32, true, refused);
    CudaBackend backend({.kind = DeviceKind::cuda});
    const auto stream = backend.make_compute_stream();
    const auto tensor = [&](Layout layout, const Shape& shape, std::uint64_t seed) {
      return TestTensor(backend, *stream, DType::f32, layout, shape, uniform(shape.numel(), -1, 1, seed));
    };
    const auto x = tensor(Layout::nhwc, {2, 5, 7, 4}, 1), w = tensor(Layout::ohwi, {8, 3, 3, 4}, 2),
               y = tensor(Layout::nhwc, {2, 3, 4, 8}, 3);
    std::vector<Values> results;
    for (cuda::Convolutions* convolutions : {&plain, &tuned}) {
      const auto out = tensor(Layout::nhwc, {2, 3, 4, 8}, 4), dx = tensor(Layout::nhwc, {2, 5, 7, 4}, 5),
                 dw = tensor(Layout::ohwi, {8, 3, 3, 4}, 6);
      if (convolutions == &tuned) cudasim::slow_plans(4);  // the first candidate: a warm-up and three runs
      convolutions->conv2d_forward(*stream, kSmall, x, w, out);
      convolutions->conv2d_backward_data(*stream, kSmall, y, w, dx, mode);
      convolutions->conv2d_backward_weight(*stream, kSmall, x, y, dw, mode);
      results.push_back(out.read());
      results.push_back(dx.read());
      results.push_back(dw.read());
    }
    for (std::size_t i = 0; i < 3; ++i) CHECK(compare(results[i], results[i + 3], 1e-6, 1e-6) == "");
    const auto& forward = tuned.plans().get({Direction::forward, kSmall, DType::f32, false});
    CHECK(forward.settled());
    CHECK(forward.position() > 0);
    CHECK_FALSE(plain.plans().get({Direction::forward, kSmall, DType::f32, false}).settled());
  }
  CHECK(cudasim::alive() == cudasim::Alive{});
}

TEST_CASE("autotune: a candidate that the device refuses is passed over") {
  cuda::Workspace workspace{CudaAllocator(0)};
  cuda::Convolutions tuned(DeviceProperties::of_device(0), workspace, Precision::fp32, true,
                           [](const std::string& text) { FAIL(text); });
  CudaBackend backend({.kind = DeviceKind::cuda});
  const auto stream = backend.make_compute_stream();
  const TestTensor x(backend, *stream, DType::f32, Layout::nhwc, {2, 5, 7, 4}, uniform(280, -1, 1, 1));
  const TestTensor w(backend, *stream, DType::f32, Layout::ohwi, {8, 3, 3, 4}, uniform(288, -1, 1, 2));
  const TestTensor y(backend, *stream, DType::f32, Layout::nhwc, {2, 3, 4, 8}, {});
  cudasim::refuse_plans(1);
  tuned.conv2d_forward(*stream, kSmall, x, w, y);
  CHECK(tuned.plans().get({Direction::forward, kSmall, DType::f32, false}).position() > 0);
}

namespace {

// How often autotuning runs the candidates of a convolution: each a warm-up and three times.
int runs_of_candidates(const cuda::Convolution& convolution) {
  const auto device = DeviceProperties::of_device(0);
  ConvolutionPlan plan(convolution, device, Precision::fp32);
  int candidates = 1;
  while (candidates < 8 && plan.advance(device)) ++candidates;
  return 4 * candidates;
}

// The candidates of `wanted` that are slow next: those as it is, or those with padded channels.
void slow_down(const cuda::Convolution& wanted, std::int64_t padded_channels, bool padded) {
  cuda::Convolution other = wanted;
  other.shape.c_in = padded_channels;
  other.accumulate = false;
  const int first = runs_of_candidates(wanted);
  padded ? cudasim::slow_plans(runs_of_candidates(other), first) : cudasim::slow_plans(first);
}

}  // namespace

TEST_CASE("autotune: channels are padded where that is faster, and the result is what was asked for") {
  constexpr ConvShape kStem{2, 9, 7, 3, 8, 3, 2, 1};
  cuda::Workspace workspace{CudaAllocator(0)};
  const auto refused = [](const std::string& text) { FAIL(text); };
  CudaBackend backend({.kind = DeviceKind::cuda});
  const auto stream = backend.make_compute_stream();
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const auto tensor = [&](DType of, Layout layout, const Shape& shape, std::uint64_t seed) {
      return TestTensor(backend, *stream, of, layout, shape, uniform(shape.numel(), -1, 1, seed));
    };
    const auto x = tensor(type, Layout::nhwc, {2, 9, 7, 3}, 1),
               w = tensor(type, Layout::ohwi, {8, 3, 3, 3}, 2),
               dy = tensor(type, Layout::nhwc, {2, 5, 4, 8}, 3);
    const std::int64_t vector = type == DType::f32 ? 4 : 8;
    for (const bool padding_is_fast : {true, false}) {
      for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
        CAPTURE(name_of(type), padding_is_fast, mode == GradMode::accumulate);
        cuda::Convolutions plain(DeviceProperties::of_device(0), workspace, Precision::fp32, false, refused);
        cuda::Convolutions tuned(DeviceProperties::of_device(0), workspace, Precision::fp32, true, refused);
        const cuda::Convolution forward{Direction::forward, kStem, type, false};
        const cuda::Convolution weight{Direction::backward_weight, kStem, type,
                                       type == DType::f32 && mode == GradMode::accumulate};
        std::vector<Values> results;
        for (cuda::Convolutions* convolutions : {&plain, &tuned}) {
          const auto y = tensor(type, Layout::nhwc, {2, 5, 4, 8}, 4),
                     dw = tensor(DType::f32, Layout::ohwi, {8, 3, 3, 3}, 5);
          if (convolutions == &tuned) slow_down(forward, vector, !padding_is_fast);
          convolutions->conv2d_forward(*stream, kStem, x, w, y);
          if (convolutions == &tuned) slow_down(weight, vector, !padding_is_fast);
          convolutions->conv2d_backward_weight(*stream, kStem, x, dy, dw, mode);
          results.push_back(y.read());
          results.push_back(dw.read());
        }
        cudasim::slow_plans(0);
        for (std::size_t i = 0; i < 2; ++i) CHECK(compare(results[i], results[i + 2], 1e-6, 1e-6) == "");
        for (const cuda::Convolution& wanted : {forward, weight}) {
          CHECK(plain.plans().get(wanted).convolution().shape.c_in == 3);
          CHECK(tuned.plans().get(wanted).convolution().shape.c_in == (padding_is_fast ? vector : 3));
        }
      }
    }
  }
}
