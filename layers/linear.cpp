#include "layers/linear.h"

namespace lockstep {

void Linear::declare_parameters(ParameterStore& store) {
  store_ = &store;
  bias_ = store.add_parameter(name_ + ".bias", Shape{out_}, Layout::flat, false);
  weight_ = store.add_parameter(name_ + ".weight", Shape{out_, in_}, Layout::flat, true);
}

TensorView Linear::layout(Arena& arena, const TensorView& x) {
  LOCKSTEP_CHECK(x.shape[1] == in_, "{} takes {} features, not {}", name_, in_, x.shape[1]);
  output_ = arena.tensor(x.dtype, Layout::flat, Shape{x.shape[0], out_});
  return output_;
}

TensorView Linear::forward(const ForwardPass& pass, const TensorView& x) {
  const Span span(pass.context.tracer, name_, "forward");
  input_ = x;
  const TensorView y = output_.first(x.shape[0]);
  pass.context.backend.linear_forward(pass.context.stream, x, store_->working(weight_), store_->weight(bias_),
                                      y);
  return y;
}

void Linear::backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx) {
  const Span span(pass.context.tracer, name_, "backward");
  Backend& backend = pass.context.backend;
  backend.linear_backward_data(pass.context.stream, dy, store_->working(weight_), dx);
  backend.linear_backward_weight(pass.context.stream, input_, dy, store_->gradient(weight_),
                                 store_->gradient(bias_), pass.gradients);
}

}  // namespace lockstep
