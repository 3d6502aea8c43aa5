#include "layers/residual_block.h"

#include <algorithm>

namespace lockstep {

ResidualBlock::ResidualBlock(std::string name, std::vector<ConvBatchNorm> path,
                             std::optional<ConvBatchNorm> downsample)
    : name_(std::move(name)), path_(std::move(path)), downsample_(std::move(downsample)) {}

void ResidualBlock::declare_parameters(ParameterStore& store) {
  if (downsample_) {
    downsample_->norm.declare_parameters(store);
    downsample_->conv.declare_parameters(store);
  }
  for (auto step = path_.rbegin(); step != path_.rend(); ++step) {
    step->norm.declare_parameters(store);
    step->conv.declare_parameters(store);
  }
}

void ResidualBlock::declare_buffers(ParameterStore& store) {
  for (ConvBatchNorm& step : path_) step.norm.declare_buffers(store);
  if (downsample_) downsample_->norm.declare_buffers(store);
}

TensorView ResidualBlock::layout(Arena& arena, const TensorView& x) {
  path_shapes_.clear();
  // The downsample branch's output is needed only until the addition: the block's output takes its memory.
  TensorView shortcut;
  if (downsample_) shortcut = downsample_->norm.layout(arena, downsample_->conv.layout(arena, x));
  TensorView y = x;
  for (ConvBatchNorm& step : path_) {
    y = step.conv.layout(arena, y);
    path_shapes_.push_back(y.shape);
    y = step.norm.layout(arena, y, &step == &path_.back() ? shortcut : TensorView{});
  }
  return y;
}

std::array<std::int64_t, 2> ResidualBlock::scratch_elements() const {
  std::array<std::int64_t, 2> elements{};
  for (std::size_t i = 0; i < path_shapes_.size(); ++i) {
    elements[i % 2] = std::max(elements[i % 2], path_shapes_[i].numel());
  }
  return elements;
}

TensorView ResidualBlock::forward(const ForwardPass& pass, const TensorView& x) {
  const Span span(pass.context.tracer, name_, "forward");
  input_shape_ = x.shape;
  TensorView shortcut = x;
  if (downsample_) shortcut = downsample_->norm.forward(pass, downsample_->conv.forward(pass, x));
  TensorView y = x;
  for (ConvBatchNorm& step : path_) {
    y = step.conv.forward(pass, y);
    y = step.norm.forward(pass, y, &step == &path_.back() ? shortcut : TensorView{});
  }
  return y;
}

TensorView ResidualBlock::backward(const BackwardPass& pass, const TensorView& dy, const TensorView& other) {
  const Span span(pass.context.tracer, name_, "backward");
  const std::int64_t n = dy.shape[0];
  const auto scratch = [&](std::size_t i) {
    return view_as(scratch_[i % 2], Layout::nhwc, path_shapes_[i]).first(n);
  };
  std::size_t i = path_.size() - 1;
  TensorView gradient = scratch(i);
  path_[i].norm.backward(pass, dy, gradient, dy);

  TensorView dx = dy;
  if (downsample_) {
    dx = view_as(other, Layout::nhwc, input_shape_);
    downsample_->norm.backward(pass, dy, dy);
    downsample_->norm.announce_gradients(pass);
    downsample_->conv.backward(pass, dy, dx, GradMode::overwrite);
    downsample_->conv.announce_gradients(pass);
  }
  path_[i].norm.announce_gradients(pass);

  for (; i > 0; --i) {
    const TensorView next = scratch(i - 1);  // has the input's shape of convolution i
    path_[i].conv.backward(pass, gradient, next, GradMode::overwrite);
    path_[i].conv.announce_gradients(pass);
    path_[i - 1].norm.backward(pass, next, next);
    path_[i - 1].norm.announce_gradients(pass);
    gradient = next;
  }
  path_[0].conv.backward(pass, gradient, dx, GradMode::accumulate);
  path_[0].conv.announce_gradients(pass);
  return dx;
}

namespace {

ConvBatchNorm conv_batch_norm(const std::string& conv, const std::string& norm, const Conv2dOptions& options,
                              bool relu) {
  return {Conv2d(conv, options), BatchNorm(norm, options.c_out, relu)};
}

// torchvision's rule: the shortcut is the identity unless the shape changes.
std::optional<ConvBatchNorm> make_downsample(const std::string& name, std::int64_t c_in, std::int64_t c_out,
                                             std::int64_t stride) {
  if (stride == 1 && c_in == c_out) return std::nullopt;
  return conv_batch_norm(name + ".downsample.0", name + ".downsample.1", {c_in, c_out, 1, stride, 0}, false);
}

}  // namespace

ResidualBlock make_basic_block(const std::string& name, std::int64_t c_in, std::int64_t width,
                               std::int64_t stride) {
  std::vector<ConvBatchNorm> path;
  path.push_back(conv_batch_norm(name + ".conv1", name + ".bn1", {c_in, width, 3, stride, 1}, true));
  path.push_back(conv_batch_norm(name + ".conv2", name + ".bn2", {width, width, 3, 1, 1}, true));
  return {name, std::move(path), make_downsample(name, c_in, width, stride)};
}

ResidualBlock make_bottleneck(const std::string& name, std::int64_t c_in, std::int64_t width,
                              std::int64_t stride) {
  std::vector<ConvBatchNorm> path;
  path.push_back(conv_batch_norm(name + ".conv1", name + ".bn1", {c_in, width, 1, 1, 0}, true));
  path.push_back(conv_batch_norm(name + ".conv2", name + ".bn2", {width, width, 3, stride, 1}, true));
  path.push_back(conv_batch_norm(name + ".conv3", name + ".bn3", {width, 4 * width, 1, 1, 0}, true));
  return {name, std::move(path), make_downsample(name, c_in, 4 * width, stride)};
}

}  // namespace lockstep
