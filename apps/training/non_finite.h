// Where a NaN or an infinity came from.
#pragma once

#include <string>

#include "kernels/context.h"
#include "layers/parameter_store.h"
#include "models/resnet.h"

namespace lockstep {

// The first tensor that is not finite, in torchvision's order, which is the order of the forward pass:
// weights, and what goes into each batch norm, seen through the running statistics that it moved, which lie
// in `statistics` as they do in the store. "the logits" if all are.
std::string first_non_finite(Context& context, const ResNet& model, const ParameterStore& store,
                             const Buffer& statistics);

// The first parameter, in the same order, whose gradient is not finite; "" if all are.
std::string first_non_finite_gradient(Context& context, const ResNet& model, const ParameterStore& store);

}  // namespace lockstep
