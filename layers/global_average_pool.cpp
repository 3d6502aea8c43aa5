#include "layers/global_average_pool.h"

namespace lockstep {

TensorView GlobalAveragePool::layout(Arena& arena, const TensorView& x) {
  output_ = arena.tensor(x.dtype, Layout::flat, Shape{x.shape[0], x.shape[3]});
  return output_;
}

TensorView GlobalAveragePool::forward(const ForwardPass& pass, const TensorView& x) {
  const Span span(pass.context.tracer, name_, "forward");
  const TensorView y = output_.first(x.shape[0]);
  pass.context.backend.global_average_pool_forward(pass.context.stream, x, y);
  return y;
}

void GlobalAveragePool::backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx) {
  const Span span(pass.context.tracer, name_, "backward");
  pass.context.backend.global_average_pool_backward(pass.context.stream, dy, dx);
}

}  // namespace lockstep
