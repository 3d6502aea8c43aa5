// Every layer alone against expected results in a tensor file, written by tests/parity/layer_cases.py.
//
// A tensor is named CASE/TENSOR; CASE begins with the layer's kind ("conv2d.3x3_stride2"). CASE/options holds
// the layer's integers. Layouts are Lockstep's: NHWC and [Cout][kh][kw][Cin].
#pragma once

#include <string>
#include <vector>

#include "support/harness.h"
#include "support/tensor_file.h"

namespace lockstep::test {

struct LayerError {
  std::string layer, tensor;
  double error = 0.0;  // the larger of the relative errors in the Euclidean and the maximum norm
};

double relative_error(std::span<const float> actual, std::span<const float> expected);

// Runs forward and backward of every case on `device` and compares every result.
std::vector<LayerError> run_layer_cases(const Device& device, const TensorFile& file);

}  // namespace lockstep::test
