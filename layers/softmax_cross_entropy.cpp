#include "layers/softmax_cross_entropy.h"

namespace lockstep {

void SoftmaxCrossEntropy::layout(const TensorView& loss, const TensorView& correct) {
  loss_ = loss;
  correct_ = correct;
}

void SoftmaxCrossEntropy::layout(Arena& arena) {
  layout(arena.tensor(DType::f32, Layout::flat, Shape{1}), arena.tensor(DType::i32, Layout::flat, Shape{1}));
}

void SoftmaxCrossEntropy::forward(const ForwardPass& pass, const TensorView& logits, const TensorView& labels,
                                  const TensorView& gradient_scale, const TensorView& dlogits) const {
  const Span span(pass.context.tracer, name_, "forward");
  pass.context.backend.softmax_cross_entropy(pass.context.stream, logits, labels, smoothing_, gradient_scale,
                                             loss_, correct_, dlogits);
}

}  // namespace lockstep
