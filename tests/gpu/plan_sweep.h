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

// What training needs of one convolution, on one GPU.
struct Sweep {
  explicit Sweep(cuda::DeviceProperties gpu) : properties(std::move(gpu)) {}

  void convolution(const ConvShape& shape, DType type) {
    for (const cuda::Direction direction :
         {cuda::Direction::forward, cuda::Direction::backward_data, cuda::Direction::backward_weight}) {
      const cuda::Convolution wanted{direction, shape, type, false};
      INFO(describe(wanted));
      ++count;
      try {
        const cuda::ConvolutionPlan plan(wanted, properties, cuda::Precision::fp32);
        if (type == DType::f32 || !is_huge(shape)) CHECK(plan.uses_tensor_cores() == (type == DType::bf16));
        largest = std::max(largest, plan.workspace_bytes());
        if (print) fmt::print("{:>12} bytes: {}\n", plan.workspace_bytes(), describe(wanted));
      } catch (const Error& error) {
        FAIL_CHECK(error.what());
      }
    }
  }
  void networks(std::int64_t batch, std::int64_t size) {
    for (const bool imagenet_stem : {true, false}) {
      for (const ConvShape& shape : resnet_convolutions(imagenet_stem, batch, size)) {
        convolution(shape, DType::f32);
        convolution(shape, DType::bf16);
      }
    }
  }

  cuda::DeviceProperties properties;
  int count = 0;
  std::int64_t largest = 0;
  bool print = std::getenv("LOCKSTEP_TEST_PRINT") != nullptr;  // a table of all workspaces
};

}  // namespace lockstep::test
