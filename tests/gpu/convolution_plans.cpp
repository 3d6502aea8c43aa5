// Which plans cuDNN gives the convolutions of ResNets on this device, and what their execution shows.
#include "kernels/cuda/convolution_plans.h"

#include "catch.h"
#include "core/error.h"
#include "gpu/plan_sweep.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/twins.h"

using namespace lockstep;
using namespace lockstep::test;
using cuda::Convolution;
using cuda::ConvolutionPlan;
using cuda::DeviceProperties;
using cuda::Direction;
using cuda::Precision;

namespace {

// Runs on the tested side with shape `tested`, on the reference with shape `expected`.
std::string forward_difference(const ConvShape& expected, const ConvShape& tested) {
  CudaBackend backend({.kind = DeviceKind::cuda});
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

TEST_CASE("cuDNN has plans on this device for every convolution of every ResNet", "[long]") {
  Sweep sweep(DeviceProperties::of_device(0));
  sweep.networks(32, 32);
  sweep.networks(32, 224);
}

TEST_CASE("fp32 keeps all bits of its inputs, tf32 takes the tensor cores") {
  const auto device = DeviceProperties::of_device(0);
  const ConvShape shape{32, 16, 16, 64, 64, 3, 1, 1};
  for (const Direction direction :
       {Direction::forward, Direction::backward_data, Direction::backward_weight}) {
    const Convolution wanted{direction, shape, DType::f32, true};
    CHECK_FALSE(ConvolutionPlan(wanted, device, Precision::fp32).uses_tensor_cores());
    CHECK(ConvolutionPlan(wanted, device, Precision::tf32).uses_tensor_cores());
  }
}

TEST_CASE("properties of a device are those of its JSON") {
  const auto device = DeviceProperties::of_device(0);
  CHECK(DeviceProperties::from_json(device.json()).json() == device.json());
  CHECK_THROWS_AS(DeviceProperties::from_json("{}"), Error);
}

TEST_CASE("a plan is made once, and its candidates come to an end") {
  const ConvShape shape{2, 5, 7, 3, 8, 3, 2, 1};
  const auto device = DeviceProperties::of_device(0);
  cuda::ConvolutionPlans plans(DeviceProperties::of_device(0));
  ConvolutionPlan& plan = plans.get({Direction::forward, shape, DType::bf16, false});
  CHECK(&plan == &plans.get({Direction::forward, shape, DType::bf16, false}));
  CHECK(&plan != &plans.get({Direction::forward, shape, DType::bf16, true}));
  int candidates = 1;
  while (plan.advance(device)) ++candidates;
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
