// Linear, loss, optimiser, input and utilities.
#include "kernels/contracts.h"
#include "kernels/contracts_op.h"

namespace lockstep::contract {

void memory(const char* op, const void* a, const void* b, std::int64_t bytes) {
  Op(op).require(bytes >= 0, "negative size {}", bytes);
  Op(op).require(bytes == 0 || (a != nullptr && b != nullptr), "null pointer for {} bytes", bytes);
}

void copy_on_device(const void* dst, const void* src, std::int64_t bytes) {
  memory("copy_on_device", dst, src, bytes);
  const Shape size{bytes};
  const TensorView to{const_cast<void*>(dst), DType::u8, Layout::flat, size};
  const TensorView from{const_cast<void*>(src), DType::u8, Layout::flat, size};
  Op("copy_on_device").apart({"dst", to}, {{"src", from}});
}

void linear_forward(const TensorView& x, const TensorView& w, const TensorView& bias, const TensorView& y) {
  const Op op("linear_forward");
  op.compute_type({"x", x});
  op.rank({"x", x}, 2);
  op.rank({"y", y}, 2);
  const std::int64_t n = x.shape[0], in = x.shape[1], out = y.shape[1];
  op.is({"w", w}, x.dtype, {out, in});
  op.is({"bias", bias}, DType::f32, {out});
  op.is({"y", y}, x.dtype, {n, out});
  op.apart({"y", y}, {{"x", x}, {"w", w}, {"bias", bias}});
}

void linear_backward_data(const TensorView& dy, const TensorView& w, const TensorView& dx) {
  const Op op("linear_backward_data");
  op.compute_type({"dy", dy});
  op.rank({"dy", dy}, 2);
  op.rank({"dx", dx}, 2);
  const std::int64_t n = dy.shape[0], out = dy.shape[1], in = dx.shape[1];
  op.is({"w", w}, dy.dtype, {out, in});
  op.is({"dx", dx}, dy.dtype, {n, in});
  op.apart({"dx", dx}, {{"dy", dy}, {"w", w}});
}

void linear_backward_weight(const TensorView& x, const TensorView& dy, const TensorView& dw,
                            const TensorView& dbias) {
  const Op op("linear_backward_weight");
  op.compute_type({"x", x});
  op.rank({"x", x}, 2);
  op.rank({"dy", dy}, 2);
  const std::int64_t n = x.shape[0], in = x.shape[1], out = dy.shape[1];
  op.is({"dy", dy}, x.dtype, {n, out});
  op.is({"dw", dw}, DType::f32, {out, in});
  op.is({"dbias", dbias}, DType::f32, {out});
  op.apart({"dw", dw}, {{"x", x}, {"dy", dy}, {"dbias", dbias}});
  op.apart({"dbias", dbias}, {{"x", x}, {"dy", dy}});
}

void softmax_cross_entropy(const TensorView& logits, const TensorView& labels, float smoothing,
                           const TensorView& gradient_scale, const TensorView& loss,
                           const TensorView& correct, const TensorView& dlogits) {
  const Op op("softmax_cross_entropy");
  op.require(smoothing >= 0.0f && smoothing <= 1.0f, "smoothing {} is not in [0, 1]", smoothing);
  op.compute_type({"logits", logits});
  op.rank({"logits", logits}, 2);
  op.is({"labels", labels}, DType::i32, {logits.shape[0]});
  if (gradient_scale) op.is({"gradient_scale", gradient_scale}, DType::f32, {1});
  op.is({"loss", loss}, DType::f32, {1});
  op.is({"correct", correct}, DType::i32, {1});
  op.optional_like({"dlogits", dlogits}, logits);
  op.apart({"dlogits", dlogits}, {{"logits", logits}, {"labels", labels}});
  op.apart({"loss", loss}, {{"logits", logits}, {"correct", correct}, {"dlogits", dlogits}});
}

void sgd_step(const SgdControl& control, const TensorView& w, const TensorView& dw, const TensorView& v,
              const TensorView& working) {
  const Op op("sgd_step");
  op.is({"learning_rate", control.learning_rate}, DType::f32, {1});
  if (control.skip) op.is({"skip", control.skip}, DType::f32, {1});
  if (control.gradient_scale) op.is({"gradient_scale", control.gradient_scale}, DType::f32, {1});
  op.present({"w", w});
  op.is({"w", w}, DType::f32, w.shape);
  op.is({"dw", dw}, DType::f32, w.shape);
  op.is({"v", v}, DType::f32, w.shape);
  if (working) {
    op.compute_type({"working", working});
    op.is({"working", working}, working.dtype, w.shape);
  }
  op.apart({"w", w}, {{"dw", dw}, {"v", v}, {"working", working}});
  op.apart({"v", v}, {{"dw", dw}, {"working", working}});
  op.apart({"working", working}, {{"dw", dw}});
}

void update_loss_scale(const TensorView& overflow, const TensorView& scale, const TensorView& good_steps) {
  const Op op("update_loss_scale");
  op.is({"overflow", overflow}, DType::f32, {1});
  op.is({"scale", scale}, DType::f32, {1});
  op.is({"good_steps", good_steps}, DType::f32, {1});
  op.apart({"scale", scale}, {{"overflow", overflow}, {"good_steps", good_steps}});
  op.apart({"good_steps", good_steps}, {{"overflow", overflow}});
}

void augment_normalize(const AugmentOptions& options, const TensorView& images, const TensorView& samples,
                       const TensorView& epoch, const TensorView& y) {
  const Op op("augment_normalize");
  op.require(options.padding >= 0 && options.padding < (1 << 20), "padding {}", options.padding);
  op.present({"images", images});
  op.rank({"images", images}, 4);
  op.is({"images", images}, DType::u8, {images.shape[0], 3, images.shape[2], images.shape[3]});
  op.present({"samples", samples});
  op.rank({"samples", samples}, 1);
  op.is({"samples", samples}, DType::i32, samples.shape);
  if (options.train) op.is({"epoch", epoch}, DType::i32, {1});
  op.compute_type({"y", y});
  op.is({"y", y}, y.dtype, {samples.shape[0], images.shape[2], images.shape[3], 3});
  op.apart({"y", y}, {{"images", images}, {"samples", samples}});
}

void cast(const TensorView& x, const TensorView& y) {
  const Op op("cast");
  op.compute_type({"x", x});
  op.compute_type({"y", y});
  op.require(x.dtype != y.dtype, "tensors x and y are both {}", name_of(x.dtype));
  op.is({"y", y}, y.dtype, x.shape);
  op.apart({"y", y}, {{"x", x}});
}

void non_finite_check(const TensorView& x, const TensorView& flag) {
  const Op op("non_finite_check");
  op.compute_type({"x", x});
  op.is({"flag", flag}, DType::f32, {1});
  op.apart({"flag", flag}, {{"x", x}});
}

void copy_if(const TensorView& flag, const TensorView& x, const TensorView& y) {
  const Op op("copy_if");
  op.is({"flag", flag}, DType::f32, {1});
  op.present({"x", x});
  op.is({"x", x}, DType::f32, x.shape);
  op.is({"y", y}, DType::f32, x.shape);
  op.apart({"y", y}, {{"x", x}, {"flag", flag}});
}

void sum_of_squares(const TensorView& x, const TensorView& sum) {
  const Op op("sum_of_squares");
  op.present({"x", x});
  op.is({"x", x}, DType::f32, x.shape);
  op.is({"sum", sum}, DType::f32, {1});
  op.apart({"sum", sum}, {{"x", x}});
}

void checksum(const TensorView& x, const TensorView& sum) {
  const Op op("checksum");
  op.present({"x", x});
  op.is({"sum", sum}, DType::i32, {2});
  op.apart({"sum", sum}, {{"x", x}});
}

}  // namespace lockstep::contract
