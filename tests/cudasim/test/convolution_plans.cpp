// Which plans the real cuDNN gives the convolutions of ResNets for GPUs that are not here, and what becomes
// of a plan that a device refuses. tests/gpu/convolution_plans.cpp has what every device shows.
#include "kernels/cuda/convolution_plans.h"

#include "catch.h"
#include "core/error.h"
#include "cudasim/cudnn/cudnn_double.h"
#include "gpu/plan_sweep.h"
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/test_tensor.h"

using namespace lockstep;
using namespace lockstep::test;
using cuda::DeviceProperties;
using cuda::Precision;

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

TEST_CASE("a simulated device has the properties of its GPU") {
  CHECK(DeviceProperties::of_device(0).json().find("NVIDIA H200") != std::string::npos);
}

TEST_CASE("a device that refuses a plan is given the next one, and told of once") {
  const ConvShape shape{2, 5, 7, 3, 8, 3, 2, 1};
  cuda::Workspace workspace{CudaAllocator(0)};
  std::vector<std::string> told;
  cuda::Convolutions convolutions(DeviceProperties::of_device(0), workspace, Precision::fp32,
                                  [&](const std::string& text) { told.push_back(text); });
  CudaBackend backend(0);
  const auto stream = backend.make_compute_stream();
  const TestTensor x(backend, *stream, DType::f32, Layout::nhwc, {2, 5, 7, 3}, uniform(210, -1, 1, 1));
  const TestTensor w(backend, *stream, DType::f32, Layout::ohwi, {8, 3, 3, 3}, uniform(216, -1, 1, 2));
  const TestTensor y(backend, *stream, DType::f32, Layout::nhwc, {2, 3, 4, 8}, {});
  const auto run = [&] { convolutions.conv2d_forward(*stream, shape, x, w, y); };
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
