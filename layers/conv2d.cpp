#include "layers/conv2d.h"

namespace lockstep {

void Conv2d::declare_parameters(ParameterStore& store) {
  store_ = &store;
  weight_ = store.add_parameter(name_ + ".weight",
                                Shape{options_.c_out, options_.kernel, options_.kernel, options_.c_in},
                                Layout::ohwi, true);
}

ConvShape Conv2d::shape_of(const TensorView& x) const {
  return {x.shape[0],     x.shape[1],      x.shape[2],      x.shape[3],
          options_.c_out, options_.kernel, options_.stride, options_.padding};
}

TensorView Conv2d::layout(Arena& arena, const TensorView& x) {
  const ConvShape shape = shape_of(x);
  LOCKSTEP_CHECK(shape.c_in == options_.c_in, "{} takes {} channels, not {}", name_, options_.c_in,
                 shape.c_in);
  output_ = arena.tensor(x.dtype, Layout::nhwc, Shape{shape.n, shape.out_h(), shape.out_w(), shape.c_out});
  return output_;
}

TensorView Conv2d::forward(const ForwardPass& pass, const TensorView& x) {
  const Span span(pass.context.tracer, name_, "forward");
  input_ = x;
  const TensorView y = output_.first(x.shape[0]);
  pass.context.backend.conv2d_forward(pass.context.stream, shape_of(x), x, store_->working(weight_), y);
  return y;
}

void Conv2d::backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx,
                      GradMode dx_mode) {
  const Span span(pass.context.tracer, name_, "backward");
  Backend& backend = pass.context.backend;
  const ConvShape shape = shape_of(input_);
  if (dx) {
    backend.conv2d_backward_data(pass.context.stream, shape, dy, store_->working(weight_), dx, dx_mode);
  }
  backend.conv2d_backward_weight(pass.context.stream, shape, input_, dy, store_->gradient(weight_),
                                 pass.gradients);
}

}  // namespace lockstep
