#include "kernels/contracts.h"

#include <cstdint>
#include <initializer_list>

#include "core/error.h"

namespace lockstep::contract {
namespace {

struct Named {
  const char* name;
  const TensorView& view;
};

bool overlap(const TensorView& a, const TensorView& b) {
  if (!a || !b) return false;
  const auto first_a = reinterpret_cast<std::uintptr_t>(a.data);
  const auto first_b = reinterpret_cast<std::uintptr_t>(b.data);
  return first_a < first_b + static_cast<std::uintptr_t>(b.bytes()) &&
         first_b < first_a + static_cast<std::uintptr_t>(a.bytes());
}

bool is_compute_type(DType type) {
  return type == DType::f32 || type == DType::bf16;
}

// The checks of one call of one op; every message begins with the op and names the tensor.
class Op {
 public:
  explicit Op(const char* name) : name_(name) {}

  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]] {
      fail(ExitCode::internal, "{}: {}", name_, fmt::format(format, std::forward<Args>(args)...));
    }
  }

  void present(const Named& tensor) const {
    require(static_cast<bool>(tensor.view), "tensor {} is required", tensor.name);
    require(tensor.view.numel() > 0, "tensor {} is empty ({})", tensor.name, tensor.view.shape.to_string());
  }

  void compute_type(const Named& tensor) const {
    present(tensor);
    require(is_compute_type(tensor.view.dtype), "tensor {} is {}, expected f32 or bf16", tensor.name,
            name_of(tensor.view.dtype));
  }

  void is(const Named& tensor, DType type, const Shape& shape) const {
    present(tensor);
    require(tensor.view.dtype == type, "tensor {} is {}, expected {}", tensor.name,
            name_of(tensor.view.dtype), name_of(type));
    require(tensor.view.shape == shape, "tensor {} is {}, expected {}", tensor.name,
            tensor.view.shape.to_string(), shape.to_string());
  }

  void rank(const Named& tensor, int rank) const {
    require(tensor.view.shape.rank() == rank, "tensor {} is {}, expected {} dimensions", tensor.name,
            tensor.view.shape.to_string(), rank);
  }

  // out shares no byte with any of others.
  void apart(const Named& out, std::initializer_list<Named> others) const {
    for (const Named& other : others) {
      require(!overlap(out.view, other.view), "tensors {} and {} overlap", out.name, other.name);
    }
  }

  // out is exactly one of others, or shares no byte with it.
  void same_or_apart(const Named& out, std::initializer_list<Named> others) const {
    for (const Named& other : others) {
      require(out.view.data == other.view.data || !overlap(out.view, other.view),
              "tensors {} and {} overlap in part", out.name, other.name);
    }
  }

 private:
  const char* name_;
};

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

void optional_like(const Op& op, const Named& tensor, const TensorView& like) {
  if (tensor.view) op.is(tensor, like.dtype, like.shape);
}

void batch_norm_gradient(const Op& op, const BatchNormOptions& options, const TensorView& x,
                         const TensorView& y, const TensorView& dy, const TensorView& dx,
                         const TensorView& dresidual, const TensorView& dgamma, const TensorView& dbeta) {
  if (options.relu) op.present({"y", y});
  optional_like(op, {"y", y}, x);
  op.is({"dy", dy}, x.dtype, x.shape);
  op.is({"dx", dx}, x.dtype, x.shape);
  optional_like(op, {"dresidual", dresidual}, x);
  op.apart({"dx", dx}, {{"y", y}, {"dresidual", dresidual}});
  op.same_or_apart({"dx", dx}, {{"dy", dy}, {"x", x}});
  op.apart({"dresidual", dresidual}, {{"x", x}, {"y", y}});
  op.same_or_apart({"dresidual", dresidual}, {{"dy", dy}});
  op.apart({"dgamma", dgamma}, {{"dbeta", dbeta}});
}

}  // namespace

void memory(const char* op, const void* a, const void* b, std::int64_t bytes) {
  Op(op).require(bytes >= 0, "negative size {}", bytes);
  Op(op).require(bytes == 0 || (a != nullptr && b != nullptr), "null pointer for {} bytes", bytes);
}

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
  optional_like(op, {"residual", residual}, x);
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
  optional_like(op, {"residual", residual}, x);
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
                           const TensorView& loss, const TensorView& correct, const TensorView& dlogits) {
  const Op op("softmax_cross_entropy");
  op.require(smoothing >= 0.0f && smoothing <= 1.0f, "smoothing {} is not in [0, 1]", smoothing);
  op.compute_type({"logits", logits});
  op.rank({"logits", logits}, 2);
  op.is({"labels", labels}, DType::i32, {logits.shape[0]});
  op.is({"loss", loss}, DType::f32, {1});
  op.is({"correct", correct}, DType::i32, {1});
  optional_like(op, {"dlogits", dlogits}, logits);
  op.apart({"dlogits", dlogits}, {{"logits", logits}, {"labels", labels}});
  op.apart({"loss", loss}, {{"logits", logits}, {"correct", correct}, {"dlogits", dlogits}});
}

void sgd_step(const TensorView& w, const TensorView& dw, const TensorView& v, const TensorView& working) {
  const Op op("sgd_step");
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

void augment_normalize(const AugmentOptions& options, const TensorView& images, const TensorView& samples,
                       const TensorView& y) {
  const Op op("augment_normalize");
  op.require(options.padding >= 0 && options.padding < (1 << 20), "padding {}", options.padding);
  op.require(options.epoch >= 0, "epoch {}", options.epoch);
  op.present({"images", images});
  op.rank({"images", images}, 4);
  op.is({"images", images}, DType::u8, {images.shape[0], 3, images.shape[2], images.shape[3]});
  op.present({"samples", samples});
  op.rank({"samples", samples}, 1);
  op.is({"samples", samples}, DType::i32, samples.shape);
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
  op.is({"flag", flag}, DType::i32, {1});
  op.apart({"flag", flag}, {{"x", x}});
}

}  // namespace lockstep::contract
