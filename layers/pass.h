// What one forward or backward pass hands to every layer.
#pragma once

#include <functional>

#include "kernels/context.h"

namespace lockstep {

// Batch statistics; running statistics without a gradient; or frozen: running statistics with a gradient, for
// comparisons of whole networks without batch norm's chaos.
enum class Mode { training, evaluation, frozen };

// Called on the compute stream's order when parameters first..last have their gradients and backward reads
// their weights no more: the caller may send the gradients away and change the weights at once. Calls come in
// index order.
using GradientsReady = std::function<void(int first, int last)>;

struct ForwardPass {
  Context& context;
  Mode mode;
};

struct BackwardPass {
  Context& context;
  Mode mode;
  GradMode gradients;  // of the parameters; gradients of activations have their own rule in each layer
  const GradientsReady& ready;
};

// The first elements of `memory`, seen as another shape. Gradients of activations share a few buffers this
// way.
inline TensorView view_as(const TensorView& memory, Layout layout, const Shape& shape) {
  LOCKSTEP_CHECK(shape.numel() <= memory.numel(), "{} does not fit into {}", shape.to_string(),
                 memory.shape.to_string());
  return {memory.data, memory.dtype, layout, shape};
}

}  // namespace lockstep
