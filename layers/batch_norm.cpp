#include "layers/batch_norm.h"

namespace lockstep {

void BatchNorm::declare_parameters(ParameterStore& store) {
  store_ = &store;
  gamma_ = store.add_parameter(name_ + ".weight", Shape{channels_}, Layout::flat, false);
  beta_ = store.add_parameter(name_ + ".bias", Shape{channels_}, Layout::flat, false);
}

void BatchNorm::declare_buffers(ParameterStore& store) {
  running_mean_ = store.add_buffer(name_ + ".running_mean", Shape{channels_}, 0.0f);
  running_var_ = store.add_buffer(name_ + ".running_var", Shape{channels_}, 1.0f);
}

TensorView BatchNorm::layout(Arena& arena, const TensorView& x, const TensorView& output) {
  saved_mean_ = arena.tensor(DType::f32, Layout::flat, Shape{channels_});
  saved_invstd_ = arena.tensor(DType::f32, Layout::flat, Shape{channels_});
  output_ = output.shape.rank() > 0 ? output : arena.tensor(x.dtype, Layout::nhwc, x.shape);
  return output_;
}

TensorView BatchNorm::forward(const ForwardPass& pass, const TensorView& x, const TensorView& residual) {
  const Span span(pass.context.tracer, name_, "forward");
  Backend& backend = pass.context.backend;
  input_ = x;
  const TensorView y = output_.first(x.shape[0]);
  const TensorView gamma = store_->weight(gamma_), beta = store_->weight(beta_);
  const TensorView mean = store_->buffer(running_mean_), variance = store_->buffer(running_var_);
  if (pass.mode == Mode::training) {
    backend.batch_norm_forward_training(pass.context.stream, options_, x, gamma, beta, residual, mean,
                                        variance, saved_mean_, saved_invstd_, y);
  } else {
    backend.batch_norm_forward_evaluation(pass.context.stream, options_, x, gamma, beta, residual, mean,
                                          variance, y);
  }
  return y;
}

void BatchNorm::backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx,
                         const TensorView& dresidual) {
  const Span span(pass.context.tracer, name_, "backward");
  LOCKSTEP_CHECK(pass.mode != Mode::evaluation, "{}: evaluation has no backward", name_);
  Backend& backend = pass.context.backend;
  // Without a ReLU the output is not needed, and in a block its memory may hold the block's output by now.
  const TensorView y = options_.relu ? output_.first(dy.shape[0]) : TensorView{};
  const TensorView gamma = store_->weight(gamma_);
  const TensorView dgamma = store_->gradient(gamma_), dbeta = store_->gradient(beta_);
  if (pass.mode == Mode::training) {
    backend.batch_norm_backward(pass.context.stream, options_, input_, y, dy, gamma, saved_mean_,
                                saved_invstd_, dx, dresidual, dgamma, dbeta, pass.gradients);
  } else {
    backend.batch_norm_backward_evaluation(pass.context.stream, options_, input_, y, dy, gamma,
                                           store_->buffer(running_mean_), store_->buffer(running_var_), dx,
                                           dresidual, dgamma, dbeta, pass.gradients);
  }
}

}  // namespace lockstep
