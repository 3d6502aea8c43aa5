// What kernel_bench is made of: the shapes that it finds in a model, and the check that stands before a time.
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "bench/kernels/catalogue.h"
#include "bench/kernels/check.h"
#include "bench/kernels/report.h"
#include "catch.h"

namespace lockstep::bench {
namespace {

ResNetOptions network(const std::string& name, const std::string& stem, std::int64_t size, int classes,
                      std::int64_t channels = 64) {
  ResNetOptions options;
  options.channels = channels;
  options.name = name;
  options.stem = stem;
  options.height = options.width = size;
  options.classes = classes;
  return options;
}

struct Sum {
  std::int64_t distinct = 0, calls = 0;
  double flops = 0;
  double products = 0;  // of the weight's and the result's shapes: taps on the padding count
};

Sum sum_of_op(const std::vector<Call>& calls, const std::string& op) {
  Sum sum;
  for (const Call& call : calls) {
    if (call.op != op || call.calls == 0) continue;
    ++sum.distinct;
    sum.calls += call.calls;
    sum.flops += static_cast<double>(call.calls) * call.flops;
    if (call.flops == 0) continue;
    const TensorView &w = call.operands[1].view, &y = call.operands.back().view;
    sum.products += static_cast<double>(call.calls * (w.numel() / w.shape[0]) * y.numel());
  }
  return sum;
}

Call find(const std::vector<Call>& calls, const std::string& op, const std::string& detail) {
  for (const Call& call : calls) {
    if (call.op == op && call.detail == detail) return call;
  }
  FAIL("no " << op << " of " << detail);
  return calls.front();
}

// The least number of samples that the check may take: as many repetitions of them as there can be.
std::int64_t smallest_period(const Call& call) {
  std::int64_t period = call.least_samples;
  while (call.samples % period != 0) ++period;
  return period;
}

struct Bench {
  std::unique_ptr<Backend> backend = make_reference_backend();
  std::unique_ptr<Stream> stream = backend->make_compute_stream();

  std::string check(const Call& tested, const Call& judge, DType compute) const {
    const double neighbours = distance_of_neighbours(compute, false);
    const std::int64_t period = smallest_period(judge);
    return bench::check(Instance(*backend, *stream, tested, judge.samples, period),
                        Instance(*backend, *stream, judge, period, period), neighbours);
  }
};

// The call with one wrong element: the last of an operand becomes a number that no op computes.
Call with_planted_error(const Call& call, std::size_t operand) {
  Call wrong = call;
  wrong.run = [run = call.run, operand](Backend& backend, Stream& stream, const Tensors& tensors) {
    run(backend, stream, tensors);
    const TensorView& view = tensors[operand];
    const std::int64_t size = size_of(view.dtype);
    std::memset(static_cast<char*>(view.data) + view.bytes() - size, 0x49, static_cast<std::size_t>(size));
    stream.synchronize();
  };
  return wrong;
}

}  // namespace

TEST_CASE("catalogue: ResNet-50's layers and their work, as torchvision counts them") {
  const auto calls = catalogue(network("resnet50", "imagenet", 224, 1000), 2, DType::f32);
  const Sum forward = sum_of_op(calls, "conv2d_forward"), data = sum_of_op(calls, "conv2d_backward_data"),
            weight = sum_of_op(calls, "conv2d_backward_weight"), fc = sum_of_op(calls, "linear_forward");
  CHECK(forward.calls == 53);
  CHECK(forward.distinct == 23);
  CHECK(data.calls == 52);  // none for the pictures
  CHECK(weight.calls == 53);
  CHECK(weight.flops == forward.flops);
  CHECK(sum_of_op(calls, "batch_norm_forward_training").calls == 53);
  CHECK(sum_of_op(calls, "batch_norm_backward").calls == 53);
  CHECK(fc.calls == 1);
  // 4.09 billion multiplications and additions a picture, of which those on the padding are left out.
  CHECK(std::abs((forward.products + fc.products) / 2 - 4.09e9) < 0.005e9);
  CHECK(forward.flops < 2 * forward.products);
  CHECK(forward.flops > 0.9 * 2 * forward.products);
  // What evaluation adds is not a part of the step, and neither is what no ResNet calls.
  CHECK(sum_of_op(calls, "batch_norm_forward_evaluation").calls == 0);
  CHECK(sum_of_op(calls, "relu_forward").calls == 0);
}

TEST_CASE("catalogue: both stems at 32x32, in the compute type") {
  const auto imagenet = catalogue(network("resnet50", "imagenet", 32, 10), 4, DType::bf16);
  CHECK(find(imagenet, "conv2d_forward", "4x32x32x3 -> 64 7x7 stride 2").calls == 1);
  CHECK(find(imagenet, "max_pool_backward", "4x16x16x64 3x3 stride 2").calls == 1);
  const auto cifar = catalogue(network("resnet50", "cifar", 32, 10), 4, DType::bf16);
  const Call stem = find(cifar, "conv2d_forward", "4x32x32x3 -> 64 3x3 stride 1");
  CHECK(stem.operands[0].view.dtype == DType::bf16);
  CHECK(find(cifar, "max_pool_forward", "4x32x32x64 3x3 stride 2").calls == 0);
}

TEST_CASE("catalogue: a batch that batch norm cannot take is refused") {
  try {
    catalogue(network("resnet18", "imagenet", 32, 10), 1, DType::f32);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    CHECK(std::string(error.what()).find("--batch-size 1") != std::string::npos);
  }
}

TEST_CASE("the least traffic of a call, by hand") {
  const auto calls = catalogue(network("resnet18", "imagenet", 32, 10), 4, DType::f32);
  const double image = 4 * 8 * 8 * 64 * 4;  // bytes of 4x8x8x64 floats
  const double w = 64 * 9 * 64 * 4;
  CHECK(find(calls, "conv2d_forward", "4x8x8x64 -> 64 3x3 stride 1").bytes() == 2 * image + w);
  // Accumulating reads dx as well.
  CHECK(find(calls, "conv2d_backward_data", "4x8x8x64 -> 64 3x3 stride 1 accumulate").bytes() ==
        3 * image + w);
  // Of the input a quarter is read; the output is as large as half of the input.
  CHECK(find(calls, "conv2d_forward", "4x8x8x64 -> 128 1x1 stride 2").bytes() ==
        image / 4 + image / 2 + 128 * 64 * 4);
  // x, residual, y; gamma, beta and the saved vectors once, the running ones twice.
  CHECK(find(calls, "batch_norm_forward_training", "4x8x8x64 relu residual").bytes() ==
        3 * image + 8 * 64 * 4);
  // dy and its index, a quarter of x each, in floats and in bytes, and dx.
  CHECK(find(calls, "max_pool_backward", "4x16x16x64 3x3 stride 2").bytes() == image + image / 4 + 4 * image);
}

TEST_CASE("the work of a convolution, by hand") {
  const auto calls = catalogue(network("resnet18", "imagenet", 32, 10), 4, DType::f32);
  const auto flops = [&](const std::string& detail) { return find(calls, "conv2d_forward", detail).flops; };
  // Of 8 x 3 taps along a side, two lie on the padding; with stride 2 one of 4 x 3.
  CHECK(flops("4x8x8x64 -> 64 3x3 stride 1") == 2.0 * 4 * 64 * 64 * 22 * 22);
  CHECK(flops("4x8x8x64 -> 128 3x3 stride 2") == 2.0 * 4 * 64 * 128 * 11 * 11);
  CHECK(flops("4x8x8x64 -> 128 1x1 stride 2") == 2.0 * 4 * 64 * 128 * 4 * 4);
  // On one pixel the middle of the kernel alone counts, and is read.
  const Call pixel = find(calls, "conv2d_forward", "4x1x1x512 -> 512 3x3 stride 1");
  CHECK(pixel.flops == 2.0 * 4 * 512 * 512);
  CHECK(pixel.bytes() == 4.0 * (2 * 4 * 512 + 512 * 512));
}

TEST_CASE("a row names the peak that bounds the op") {
  Call call{.op = "op", .detail = "", .flops = 3e9};
  call.operands = {{"x", {nullptr, DType::f32, Layout::flat, Shape{250'000'000}}}};
  call.operands[0].view.data = &call;
  CHECK(call.bytes() == 1e9);
  const Row computing = row_of(call, 1, 4.0, {1e9, 1e9});
  CHECK(std::string(computing.bound) == "fma");
  CHECK(computing.share == 0.75);
  const Row moving = row_of(call, 1, 4.0, {1e9, 3e10});
  CHECK(std::string(moving.bound) == "copy");
  CHECK(moving.share == 0.25);
}

TEST_CASE("comparison: what is right and what is not") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(compare({1, -2, 3}, {1, -2, 3}, 0, 0) == "");
  CHECK(compare({1, -2, 3}, {1, -2, 3 + 0x1p-22}, 0, 0x1p-7) != "");
  CHECK(compare({1, 1, 1}, {1, 1, 1 + 0x3p-24}, 4, 0) == "");
  CHECK(compare({1, 1, 1}, {1, 1, 1 + 0x5p-24}, 4, 0) != "");
  CHECK(compare({1, 1, 1}, {1, 1, 1 + 0x1p-7}, 4, 0x1p-7) == "");
  CHECK(compare({1, 1, 1}, {1, 1, 1 + 0x1p-7}, 4, 0) != "");
  // A small element of a sum is as uncertain as the others.
  CHECK(compare({1, 1, 0}, {1, 1, 0x2p-24}, 4, 0) == "");
  CHECK(compare({1, 1}, {1, nan}, 4, 0) != "");
  CHECK(compare({1, 1}, {1}, 4, 0) != "");
  const std::string text = compare({1, 1, 1}, {1, 2, 5}, 4, 0);
  CHECK(text.find("2 of 3 values are wrong; element 1 is 2 and should be 1") == 0);
}

TEST_CASE("check: right results pass, however often the samples repeat", "[long]") {
  const Bench bench;
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Call& call : catalogue(network("resnet18", "cifar", 32, 10, 16), 6, type)) {
      if (call.flops > 1e8) continue;
      INFO(call.op << " " << call.detail << " " << name_of(type));
      CHECK(bench.check(call, call, type) == "");
    }
  }
}

TEST_CASE("check: one wrong element in any result of any op is found", "[long]") {
  const Bench bench;
  std::set<std::string> ops;
  for (const Call& call : catalogue(network("resnet18", "imagenet", 32, 10, 16), 4, DType::f32)) {
    if (!ops.insert(call.op).second) continue;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      const Operand& operand = call.operands[i];
      if (!operand.view || (operand.role != Role::output && operand.role != Role::updated)) continue;
      INFO(call.op << " " << call.detail << ": " << operand.name);
      const std::string wrong = bench.check(with_planted_error(call, i), call, DType::f32);
      CHECK(wrong.find(operand.name) == 0);
      CHECK(wrong.find("1 of ") != std::string::npos);
    }
  }
  CHECK(ops.size() > 25);
}

}  // namespace lockstep::bench
