// Convolution, batch norm, ReLU and pooling.
#include "kernels/contracts.h"
#include "kernels/contracts_op.h"

namespace lockstep::contract {
namespace {

void convolution(const Op& op, const ConvShape& s, const Named& x, const Named& w, DType w_type,
                 const Named& y) {
  op.require(s.n > 0 && s.h > 0 && s.w > 0 && s.c_in > 0 && s.c_out > 0, "empty shape");
  op.require(s.kernel > 0 && s.stride > 0 && s.padding >= 0, "kernel {}, stride {}, padding {} make no sense",
             s.kernel, s.stride, s.padding);
  op.require(s.h + 2 * s.padding >= s.kernel && s.w + 2 * s.padding >= s.kernel,
             "kernel {} is larger than the padded image {}x{}", s.kernel, s.h + 2 * s.padding,
             s.w + 2 * s.padding);
  op.compute_type(x);
  op.is(x, x.view.dtype, {s.n, s.h, s.w, s.c_in});
  op.is(w, w_type, {s.c_out, s.kernel, s.kernel, s.c_in});
  op.is(y, x.view.dtype, {s.n, s.out_h(), s.out_w(), s.c_out});
}

void pooling(const Op& op, const PoolShape& s, const Named& x, const Named& y, const Named& index) {
  op.require(s.kernel > 0 && s.stride > 0 && s.padding >= 0, "kernel {}, stride {}, padding {} make no sense",
             s.kernel, s.stride, s.padding);
  op.require(2 * s.padding <= s.kernel, "padding {} is more than half the kernel {}: a window could be empty",
             s.padding, s.kernel);
  op.require(s.kernel * s.kernel <= 256, "kernel {}: positions must fit into a byte", s.kernel);
  op.require(s.h + 2 * s.padding >= s.kernel && s.w + 2 * s.padding >= s.kernel,
             "kernel {} is larger than the padded image", s.kernel);
  op.compute_type(x);
  op.is(x, x.view.dtype, {s.n, s.h, s.w, s.c});
  op.is(y, x.view.dtype, {s.n, s.out_h(), s.out_w(), s.c});
  op.is(index, DType::u8, y.view.shape);
}

std::int64_t channels_of(const Op& op, const Named& x) {
  op.compute_type(x);
  op.require(x.view.shape.rank() >= 2, "tensor {} is {}, expected [..., C]", x.name,
             x.view.shape.to_string());
  return x.view.shape[x.view.shape.rank() - 1];
}

void at_least_two_rows(const Op& op, const TensorView& x, std::int64_t channels) {
  op.require(x.numel() / channels >= 2, "tensor x ({}) has one value a channel; training statistics need two",
             x.shape.to_string());
}

void channel_vectors(const Op& op, std::int64_t channels, std::initializer_list<Named> tensors) {
  for (const Named& tensor : tensors) op.is(tensor, DType::f32, {channels});
}

void batch_norm_gradient(const Op& op, const BatchNormOptions& options, const TensorView& x,
                         const TensorView& y, const TensorView& dy, const TensorView& dx,
                         const TensorView& dresidual, const TensorView& dgamma, const TensorView& dbeta) {
  if (options.relu) op.present({"y", y});
  op.optional_like({"y", y}, x);
  op.is({"dy", dy}, x.dtype, x.shape);
  op.is({"dx", dx}, x.dtype, x.shape);
  op.optional_like({"dresidual", dresidual}, x);
  op.apart({"dx", dx}, {{"y", y}, {"dresidual", dresidual}});
  op.same_or_apart({"dx", dx}, {{"dy", dy}, {"x", x}});
  op.apart({"dresidual", dresidual}, {{"x", x}, {"y", y}});
  op.same_or_apart({"dresidual", dresidual}, {{"dy", dy}});
  op.apart({"dgamma", dgamma}, {{"dbeta", dbeta}});
}

}  // namespace

void conv2d_forward(const ConvShape& shape, const TensorView& x, const TensorView& w, const TensorView& y) {
  const Op op("conv2d_forward");
  convolution(op, shape, {"x", x}, {"w", w}, x.dtype, {"y", y});
  op.apart({"y", y}, {{"x", x}, {"w", w}});
}

void conv2d_backward_data(const ConvShape& shape, const TensorView& dy, const TensorView& w,
                          const TensorView& dx) {
  const Op op("conv2d_backward_data");
  convolution(op, shape, {"dx", dx}, {"w", w}, dx.dtype, {"dy", dy});
  op.apart({"dx", dx}, {{"dy", dy}, {"w", w}});
}

void conv2d_backward_weight(const ConvShape& shape, const TensorView& x, const TensorView& dy,
                            const TensorView& dw) {
  const Op op("conv2d_backward_weight");
  convolution(op, shape, {"x", x}, {"dw", dw}, DType::f32, {"dy", dy});
  op.apart({"dw", dw}, {{"x", x}, {"dy", dy}});
}

void batch_norm_forward_training(const TensorView& x, const TensorView& gamma, const TensorView& beta,
                                 const TensorView& residual, const TensorView& running_mean,
                                 const TensorView& running_var, const TensorView& saved_mean,
                                 const TensorView& saved_invstd, const TensorView& y) {
  const Op op("batch_norm_forward_training");
  const std::int64_t channels = channels_of(op, {"x", x});
  at_least_two_rows(op, x, channels);
  channel_vectors(op, channels,
                  {{"gamma", gamma},
                   {"beta", beta},
                   {"running_mean", running_mean},
                   {"running_var", running_var},
                   {"saved_mean", saved_mean},
                   {"saved_invstd", saved_invstd}});
  op.optional_like({"residual", residual}, x);
  op.is({"y", y}, x.dtype, x.shape);
  op.same_or_apart({"y", y}, {{"x", x}, {"residual", residual}});
  op.apart({"running_mean", running_mean}, {{"running_var", running_var}, {"saved_mean", saved_mean}});
  op.apart({"saved_mean", saved_mean}, {{"saved_invstd", saved_invstd}});
}

void batch_norm_forward_evaluation(const TensorView& x, const TensorView& gamma, const TensorView& beta,
                                   const TensorView& residual, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& y) {
  const Op op("batch_norm_forward_evaluation");
  channel_vectors(
      op, channels_of(op, {"x", x}),
      {{"gamma", gamma}, {"beta", beta}, {"running_mean", running_mean}, {"running_var", running_var}});
  op.optional_like({"residual", residual}, x);
  op.is({"y", y}, x.dtype, x.shape);
  op.same_or_apart({"y", y}, {{"x", x}, {"residual", residual}});
}

void batch_norm_backward(const BatchNormOptions& options, const TensorView& x, const TensorView& y,
                         const TensorView& dy, const TensorView& gamma, const TensorView& saved_mean,
                         const TensorView& saved_invstd, const TensorView& dx, const TensorView& dresidual,
                         const TensorView& dgamma, const TensorView& dbeta) {
  const Op op("batch_norm_backward");
  const std::int64_t channels = channels_of(op, {"x", x});
  at_least_two_rows(op, x, channels);
  channel_vectors(op, channels,
                  {{"gamma", gamma},
                   {"saved_mean", saved_mean},
                   {"saved_invstd", saved_invstd},
                   {"dgamma", dgamma},
                   {"dbeta", dbeta}});
  batch_norm_gradient(op, options, x, y, dy, dx, dresidual, dgamma, dbeta);
}

void batch_norm_backward_evaluation(const BatchNormOptions& options, const TensorView& x, const TensorView& y,
                                    const TensorView& dy, const TensorView& gamma,
                                    const TensorView& running_mean, const TensorView& running_var,
                                    const TensorView& dx, const TensorView& dresidual,
                                    const TensorView& dgamma, const TensorView& dbeta) {
  const Op op("batch_norm_backward_evaluation");
  channel_vectors(op, channels_of(op, {"x", x}),
                  {{"gamma", gamma},
                   {"running_mean", running_mean},
                   {"running_var", running_var},
                   {"dgamma", dgamma},
                   {"dbeta", dbeta}});
  batch_norm_gradient(op, options, x, y, dy, dx, dresidual, dgamma, dbeta);
}

void relu_forward(const TensorView& x, const TensorView& y) {
  const Op op("relu_forward");
  op.compute_type({"x", x});
  op.is({"y", y}, x.dtype, x.shape);
  op.same_or_apart({"y", y}, {{"x", x}});
}

void relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx) {
  const Op op("relu_backward");
  op.compute_type({"y", y});
  op.is({"dy", dy}, y.dtype, y.shape);
  op.is({"dx", dx}, y.dtype, y.shape);
  op.apart({"dx", dx}, {{"y", y}});
  op.same_or_apart({"dx", dx}, {{"dy", dy}});
}

void max_pool_forward(const PoolShape& shape, const TensorView& x, const TensorView& y,
                      const TensorView& index) {
  const Op op("max_pool_forward");
  pooling(op, shape, {"x", x}, {"y", y}, {"index", index});
  op.apart({"y", y}, {{"x", x}, {"index", index}});
  op.apart({"index", index}, {{"x", x}});
}

void max_pool_backward(const PoolShape& shape, const TensorView& dy, const TensorView& index,
                       const TensorView& dx) {
  const Op op("max_pool_backward");
  pooling(op, shape, {"dx", dx}, {"dy", dy}, {"index", index});
  op.apart({"dx", dx}, {{"dy", dy}, {"index", index}});
}

void global_average_pool_forward(const TensorView& x, const TensorView& y) {
  const Op op("global_average_pool_forward");
  op.compute_type({"x", x});
  op.rank({"x", x}, 4);
  op.is({"y", y}, x.dtype, {x.shape[0], x.shape[3]});
  op.apart({"y", y}, {{"x", x}});
}

void global_average_pool_backward(const TensorView& dy, const TensorView& dx) {
  const Op op("global_average_pool_backward");
  op.compute_type({"dx", dx});
  op.rank({"dx", dx}, 4);
  op.is({"dy", dy}, dx.dtype, {dx.shape[0], dx.shape[3]});
  op.apart({"dx", dx}, {{"dy", dy}});
}

}  // namespace lockstep::contract
