#include "layers/max_pool.h"

namespace lockstep {

PoolShape MaxPool::shape_of(const Shape& x) const {
  return {x[0], x[1], x[2], x[3], kernel_, stride_, padding_};
}

TensorView MaxPool::layout(Arena& arena, const TensorView& x) {
  const PoolShape shape = shape_of(x.shape);
  const Shape out{shape.n, shape.out_h(), shape.out_w(), shape.c};
  output_ = arena.tensor(x.dtype, Layout::nhwc, out);
  index_ = arena.tensor(DType::u8, Layout::nhwc, out);
  return output_;
}

TensorView MaxPool::forward(const ForwardPass& pass, const TensorView& x) {
  const Span span(pass.context.tracer, name_, "forward");
  const std::int64_t n = x.shape[0];
  const TensorView y = output_.first(n);
  pass.context.backend.max_pool_forward(pass.context.stream, shape_of(x.shape), x, y, index_.first(n));
  return y;
}

void MaxPool::backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx) {
  const Span span(pass.context.tracer, name_, "backward");
  pass.context.backend.max_pool_backward(pass.context.stream, shape_of(dx.shape), dy,
                                         index_.first(dy.shape[0]), dx);
}

}  // namespace lockstep
