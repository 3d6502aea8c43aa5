// Asks for the plans of all convolutions of ResNets on one GPU, which need not be here.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "catch.h"
#include "core/error.h"
#include "gpu/resnet_convolutions.h"
#include "kernels/cuda/convolution_plans.h"

namespace lockstep::test {

// Tensors of more than 2^31 elements, for which engines with wide indices are few.
inline bool is_huge(const ConvShape& s) {
  return s.n * std::max(s.h * s.w * s.c_in, s.out_h() * s.out_w() * s.c_out) >= std::int64_t{1} << 31;
}

// Both tensors together are larger than the workspace may be. Some TF32 engines (all before Hopper) turn NHWC
// into NCHW in their workspace, and are then left out: such a convolution runs without tensor cores, exactly.
inline bool outgrows_workspace(const ConvShape& s) {
  const std::int64_t elements = s.n * (s.h * s.w * s.c_in + s.out_h() * s.out_w() * s.c_out);
  return elements * size_of(DType::f32) > cuda::kWorkspaceLimit;
}

// What training needs of one convolution, on one GPU.
struct Sweep {
  explicit Sweep(cuda::DeviceProperties gpu) : properties(std::move(gpu)) {}

  void plan(const cuda::Convolution& wanted, cuda::Precision precision) {
    const bool tf32 = precision == cuda::Precision::tf32;
    INFO(describe(wanted) << (tf32 ? ", TF32" : ""));
    ++count;
    try {
      const cuda::ConvolutionPlan made(wanted, properties, precision);
      const bool exact = wanted.type == DType::f32 && !tf32;
      const bool too_large = tf32 ? outgrows_workspace(wanted.shape) : is_huge(wanted.shape);
      if (exact || !too_large) CHECK(made.uses_tensor_cores() == !exact);
      largest = std::max(largest, made.workspace_bytes());
      if (print)
        fmt::print("{:>12} bytes: {}{}\n", made.workspace_bytes(), describe(wanted), tf32 ? ", TF32" : "");
    } catch (const Error& error) {
      FAIL_CHECK(error.what());
    }
  }
  void convolution(const ConvShape& shape, DType type, cuda::Precision precision) {
    for (const bool accumulate : {false, true}) {
      plan({cuda::Direction::backward_data, shape, type, accumulate}, precision);
      // Of 16-bit factors the sums are widened into dw by a kernel, which adds them, too.
      if (accumulate && type != DType::f32) continue;
      plan({cuda::Direction::backward_weight, shape, type, accumulate}, precision);
    }
    plan({cuda::Direction::forward, shape, type, false}, precision);
    ConvShape padded = shape;  // which --autotune tries beside the others
    padded.c_in = cuda::channels_in_vectors(shape.c_in, type);
    if (padded == shape) return;
    plan({cuda::Direction::backward_weight, padded, type, false}, precision);
    plan({cuda::Direction::forward, padded, type, false}, precision);
  }
  void networks(std::int64_t batch, std::int64_t size) {
    for (const bool imagenet_stem : {true, false}) {
      for (const ConvShape& shape : resnet_convolutions(imagenet_stem, batch, size)) {
        for (const DType type : {DType::f32, DType::bf16, DType::f16})
          convolution(shape, type, cuda::Precision::fp32);
        convolution(shape, DType::f32, cuda::Precision::tf32);
      }
    }
  }

  cuda::DeviceProperties properties;
  int count = 0;
  std::int64_t largest = 0;
  bool print = std::getenv("LOCKSTEP_TEST_PRINT") != nullptr;  // a table of all workspaces
};

}  // namespace lockstep::test
