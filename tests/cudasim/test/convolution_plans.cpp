// Which plans the real cuDNN gives the convolutions of ResNets, for GPUs that are not here; and what the
// execution of plans on the double shows.
#include "kernels/cuda/convolution_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "catch.h"
#include "core/error.h"
#include "cudasim/cudasim.h"
#include "cudasim/cudnn/cudnn_double.h"
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/twins.h"
#include "resnet_convolutions.h"

using namespace lockstep;
using namespace lockstep::test;
using cuda::Convolution;
using cuda::ConvolutionPlan;
using cuda::DeviceProperties;
using cuda::Direction;
using cuda::Precision;

namespace {

constexpr ConvShape kSmall{2, 5, 7, 3, 8, 3, 2, 1};

// Tensors of more than 2^31 elements, for which engines with wide indices are few.
bool is_huge(const ConvShape& s) {
  return s.n * std::max(s.h * s.w * s.c_in, s.out_h() * s.out_w() * s.c_out) >= std::int64_t{1} << 31;
}

// Both tensors together are larger than the workspace may be. Some TF32 engines (all before Hopper) turn NHWC
// into NCHW in their workspace, and are then left out: such a convolution runs without tensor cores, exactly.
bool outgrows_workspace(const ConvShape& s) {
  const std::int64_t elements = s.n * (s.h * s.w * s.c_in + s.out_h() * s.out_w() * s.c_out);
  return elements * size_of(DType::f32) > cuda::kWorkspaceLimit;
}

// What training needs of one convolution, on one GPU.
struct Sweep {
  explicit Sweep(const std::string& gpu)
      : properties(DeviceProperties::from_json(cudasim::gpu_properties(gpu))) {}

  void plan(const Convolution& wanted, Precision precision) {
    const bool tf32 = precision == Precision::tf32;
    INFO(describe(wanted) << (tf32 ? ", TF32" : ""));
    ++count;
    try {
      const ConvolutionPlan made(wanted, properties, precision);
      const bool exact = wanted.type == DType::f32 && !tf32;
      const bool too_large = tf32 ? outgrows_workspace(wanted.shape) : is_huge(wanted.shape);
      if (exact || !too_large) CHECK(made.uses_tensor_cores() == !exact);
      largest = std::max(largest, made.workspace_bytes());
      if (print) {
        fmt::print("{:>12} bytes: {}{}\n", made.workspace_bytes(), describe(wanted), tf32 ? ", TF32" : "");
      }
    } catch (const Error& error) {
      FAIL_CHECK(error.what());
    }
  }
  void convolution(const ConvShape& shape, DType type, Precision precision) {
    for (const bool accumulate : {false, true}) {
      plan({Direction::backward_data, shape, type, accumulate}, precision);
      // Of 16-bit factors the sums are widened into dw by a kernel, which adds them, too.
      if (accumulate && type != DType::f32) continue;
      plan({Direction::backward_weight, shape, type, accumulate}, precision);
    }
    plan({Direction::forward, shape, type, false}, precision);
  }
  void networks(std::int64_t batch, std::int64_t size) {
    for (const bool imagenet_stem : {true, false}) {
      for (const ConvShape& shape : resnet_convolutions(imagenet_stem, batch, size)) {
        for (const DType type : {DType::f32, DType::bf16, DType::f16})
          convolution(shape, type, Precision::fp32);
        convolution(shape, DType::f32, Precision::tf32);
      }
    }
  }

  DeviceProperties properties;
  int count = 0;
  std::int64_t largest = 0;
  bool print = std::getenv("LOCKSTEP_TEST_PRINT") != nullptr;  // a table of all workspaces
};

// Runs on the tested side with shape `tested`, on the reference with shape `expected`.
std::string forward_difference(const ConvShape& expected, const ConvShape& tested) {
  CudaBackend backend(0);
  Twins twins(backend);
  const Pair x = twins.uniform(DType::f32, Layout::nhwc, {expected.n, expected.h, expected.w, expected.c_in});
  const Pair w = twins.uniform(DType::f32, Layout::ohwi,
                               {expected.c_out, expected.kernel, expected.kernel, expected.c_in});
  const Pair y = twins.poisoned(DType::f32, Layout::nhwc,
                                {expected.n, expected.out_h(), expected.out_w(), expected.c_out});
  twins.run([&](Backend& b, Stream& stream, int side) {
    b.conv2d_forward(stream, side == 0 ? expected : tested, x[side], w[side], y[side]);
  });
  return compare(y.expected(), y.actual(), 1e-4, 1e-4);
}

}  // namespace

TEST_CASE("cuDNN has plans for every convolution of every ResNet", "[long]") {
  for (const char* gpu : {"h200", "a100", "rtx4090"}) {
    INFO(gpu);
    Sweep sweep(gpu);
    for (const std::int64_t batch : {1, 32, 256}) {
      if (batch != 32 && gpu != std::string("h200")) continue;
      sweep.networks(batch, 32);
      sweep.networks(batch, 224);
    }
    fmt::print("{}: {} plans, the largest workspace {:.1f} MiB\n", gpu, sweep.count,
               static_cast<double>(sweep.largest) / (1 << 20));
  }
}

TEST_CASE("fp32 keeps all bits of its inputs, tf32 takes the tensor cores") {
  const auto h200 = DeviceProperties::from_json(cudasim::gpu_properties("h200"));
  const ConvShape shape{32, 16, 16, 64, 64, 3, 1, 1};
  for (const Direction direction :
       {Direction::forward, Direction::backward_data, Direction::backward_weight}) {
    const Convolution wanted{direction, shape, DType::f32, true};
    CHECK_FALSE(ConvolutionPlan(wanted, h200, Precision::fp32).uses_tensor_cores());
    CHECK(ConvolutionPlan(wanted, h200, Precision::tf32).uses_tensor_cores());
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
  CudaBackend backend(0, Precision::tf32);
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
  CudaBackend backend(0);
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

TEST_CASE("properties of a device are those of its JSON") {
  const auto from_device = DeviceProperties::of_device(0);
  CHECK(from_device.json().find("NVIDIA H200") != std::string::npos);
  CHECK(DeviceProperties::from_json(from_device.json()).json() == from_device.json());
  CHECK_THROWS_AS(DeviceProperties::from_json("{}"), Error);
}

TEST_CASE("a plan is made once, and its candidates come to an end") {
  const auto h200 = DeviceProperties::from_json(cudasim::gpu_properties("h200"));
  cuda::ConvolutionPlans plans(DeviceProperties::from_json(cudasim::gpu_properties("h200")));
  ConvolutionPlan& plan = plans.get({Direction::forward, kSmall, DType::bf16, false});
  CHECK(&plan == &plans.get({Direction::forward, kSmall, DType::bf16, false}));
  CHECK(&plan != &plans.get({Direction::forward, kSmall, DType::bf16, true}));
  int candidates = 1;
  while (plan.advance(h200)) ++candidates;
  CHECK(candidates > 1);
  CHECK_FALSE(plan.json().empty());  // the last one stays
}

TEST_CASE("a plan with another padding gives other numbers") {
  const ConvShape padded{2, 8, 8, 3, 5, 2, 3, 1};
  ConvShape unpadded = padded;
  unpadded.padding = 0;
  REQUIRE(padded.out_h() == unpadded.out_h());
  CHECK(forward_difference(padded, padded) == "");
  CHECK(forward_difference(unpadded, unpadded) == "");
  CHECK(forward_difference(padded, unpadded) != "");
}

TEST_CASE("a device that refuses a plan is given the next one, and told of once") {
  cuda::Workspace workspace{CudaAllocator(0)};
  std::vector<std::string> told;
  cuda::Convolutions convolutions(DeviceProperties::of_device(0), workspace, Precision::fp32,
                                  [&](const std::string& text) { told.push_back(text); });
  CudaBackend backend(0);
  const auto stream = backend.make_compute_stream();
  const TestTensor x(backend, *stream, DType::f32, Layout::nhwc, {2, 5, 7, 3}, uniform(210, -1, 1, 1));
  const TestTensor w(backend, *stream, DType::f32, Layout::ohwi, {8, 3, 3, 3}, uniform(216, -1, 1, 2));
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
