// The model as files and checksums know it: torchvision's names, order and layout (convolution weights
// [Cout][Cin][kh][kw]), without the padding of the flat buffers. In memory convolution weights are
// [Cout][kh][kw][Cin].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/context.h"
#include "layers/parameter_store.h"
#include "models/resnet.h"

namespace lockstep {

struct CanonicalTensor {
  std::string name;
  TensorView view;  // in memory, in the layout of the engine
};

struct CanonicalModel {
  CanonicalModel(const ResNet& model, const ParameterStore& store);
  std::vector<CanonicalTensor> weights, buffers, momenta;
};

// The dimensions as PyTorch says them.
std::vector<std::int64_t> canonical_shape(const TensorView& view);
// Copies a tensor out to host memory in canonical layout, or in from it.
void to_canonical(Context& context, const TensorView& view, std::vector<float>& out);
void from_canonical(Context& context, const float* in, const TensorView& view);

// 16 hex digits over all tensors in order: equal exactly where every bit is equal.
std::string checksum(Context& context, const std::vector<CanonicalTensor>& tensors);

}  // namespace lockstep
