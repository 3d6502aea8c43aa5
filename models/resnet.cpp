#include "models/resnet.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "layers/global_average_pool.h"
#include "layers/linear.h"
#include "layers/max_pool.h"
#include "layers/residual_block.h"
#include "models/initialize.h"

namespace lockstep {
namespace {

struct Architecture {
  const char* name;
  bool bottleneck;
  std::array<int, 4> blocks;  // of layer1..layer4
};

constexpr Architecture kArchitectures[] = {
    {"resnet18", false, {2, 2, 2, 2}},  {"resnet34", false, {3, 4, 6, 3}},  {"resnet50", true, {3, 4, 6, 3}},
    {"resnet101", true, {3, 4, 23, 3}}, {"resnet152", true, {3, 8, 36, 3}},
};

const Architecture& find_architecture(const std::string& name) {
  for (const Architecture& a : kArchitectures) {
    if (name == a.name) return a;
  }
  fail(ExitCode::usage,
       "unknown model '{}': choose one of resnet18, resnet34, resnet50, resnet101, resnet152", name);
}

bool is_imagenet_stem(const std::string& stem) {
  if (stem != "imagenet" && stem != "cifar") {
    fail(ExitCode::usage, "unknown stem '{}': choose imagenet (7x7, stride 2, pooling) or cifar (3x3)", stem);
  }
  return stem == "imagenet";
}

}  // namespace

class ResNet::Impl {
 public:
  Impl(const ResNetOptions& options, ParameterStore& store);

  void layout(Arena& arena, std::int64_t batch, DType compute);
  TensorView forward(const ForwardPass& pass, std::int64_t n);
  void backward(const BackwardPass& pass, std::int64_t n);
  std::vector<InitialValue> initial_values() const;

  ResNetOptions options_;
  ParameterStore& store_;
  bool imagenet_;
  Conv2d stem_conv_;
  BatchNorm stem_norm_;
  std::optional<MaxPool> stem_pool_;
  std::vector<ResidualBlock> blocks_;
  std::optional<Linear> fc_;
  GlobalAveragePool pool_{"avgpool"};

  TensorView input_, logits_, logits_gradient_;
  Shape stem_shape_;            // of the output of the stem's batch norm, for the largest batch
  Shape features_;              // of the last block's output
  TensorView pooled_gradient_;  // [batch, features]
  std::array<TensorView, 2> scratch_;
  // Gradients of the blocks' outputs: an identity block leaves its input's gradient where its output's was, a
  // downsample block writes it into the other buffer.
  std::array<TensorView, 2> block_gradients_;
};

ResNet::Impl::Impl(const ResNetOptions& options, ParameterStore& store)
    : options_(options),
      store_(store),
      imagenet_(is_imagenet_stem(options.stem)),
      stem_conv_("conv1", imagenet_ ? Conv2dOptions{3, options.channels, 7, 2, 3}
                                    : Conv2dOptions{3, options.channels, 3, 1, 1}),
      stem_norm_("bn1", options.channels, true) {
  const Architecture& architecture = find_architecture(options.name);
  if (options.channels < 8 || options.channels % 8 != 0) {
    fail(ExitCode::usage, "--channels {}: a network's first stage takes a multiple of 8", options.channels);
  }
  if (imagenet_) stem_pool_.emplace("maxpool", 3, 2, 1);
  std::int64_t channels = options.channels;
  for (std::size_t stage = 0; stage < architecture.blocks.size(); ++stage) {
    const std::int64_t width = options.channels << stage;
    for (int block = 0; block < architecture.blocks[stage]; ++block) {
      const std::string name = fmt::format("layer{}.{}", stage + 1, block);
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      blocks_.push_back(architecture.bottleneck ? make_bottleneck(name, channels, width, stride)
                                                : make_basic_block(name, channels, width, stride));
      channels = blocks_.back().c_out();
    }
  }
  fc_.emplace("fc", channels, options.classes);

  fc_->declare_parameters(store);
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) block->declare_parameters(store);
  stem_norm_.declare_parameters(store);
  stem_conv_.declare_parameters(store);
  stem_norm_.declare_buffers(store);
  for (ResidualBlock& block : blocks_) block.declare_buffers(store);
}

void ResNet::Impl::layout(Arena& arena, std::int64_t batch, DType compute) {
  input_ = arena.tensor(compute, Layout::nhwc, Shape{batch, options_.height, options_.width, 3});
  TensorView x = stem_norm_.layout(arena, stem_conv_.layout(arena, input_));
  stem_shape_ = x.shape;
  if (stem_pool_) x = stem_pool_->layout(arena, x);
  std::int64_t largest = x.numel();
  for (ResidualBlock& block : blocks_) {
    x = block.layout(arena, x);
    largest = std::max(largest, x.numel());
  }
  features_ = x.shape;
  const TensorView pooled = pool_.layout(arena, x);
  logits_ = fc_->layout(arena, pooled);

  logits_gradient_ = arena.tensor(compute, Layout::flat, logits_.shape);
  pooled_gradient_ = arena.tensor(compute, Layout::flat, pooled.shape);
  for (TensorView& gradient : block_gradients_)
    gradient = arena.tensor(compute, Layout::flat, Shape{largest});
  // Gradients inside one block at a time, or between the stem's layers.
  std::array<std::int64_t, 2> elements = {stem_pool_ ? stem_shape_.numel() : 0, 0};
  for (const ResidualBlock& block : blocks_) {
    const auto needed = block.scratch_elements();
    for (std::size_t i = 0; i < 2; ++i) elements[i] = std::max(elements[i], needed[i]);
  }
  for (std::size_t i = 0; i < 2; ++i) scratch_[i] = arena.tensor(compute, Layout::flat, Shape{elements[i]});
  for (ResidualBlock& block : blocks_) block.use_scratch(scratch_);
}

TensorView ResNet::Impl::forward(const ForwardPass& pass, std::int64_t n) {
  TensorView x = stem_conv_.forward(pass, input_.first(n));
  x = stem_norm_.forward(pass, x);
  if (stem_pool_) x = stem_pool_->forward(pass, x);
  for (ResidualBlock& block : blocks_) x = block.forward(pass, x);
  return fc_->forward(pass, pool_.forward(pass, x));
}

void ResNet::Impl::backward(const BackwardPass& pass, std::int64_t n) {
  const TensorView pooled = pooled_gradient_.first(n);
  fc_->backward(pass, logits_gradient_.first(n), pooled);
  fc_->announce_gradients(pass);

  TensorView gradient =
      view_as(block_gradients_[0], Layout::nhwc, {n, features_[1], features_[2], features_[3]});
  pool_.backward(pass, pooled, gradient);
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    const bool in_first = gradient.data == block_gradients_[0].data;
    gradient = block->backward(pass, gradient, block_gradients_[in_first ? 1 : 0]);
  }
  if (stem_pool_) {
    const TensorView dx = view_as(scratch_[0], Layout::nhwc, stem_shape_).first(n);
    stem_pool_->backward(pass, gradient, dx);
    gradient = dx;
  }
  stem_norm_.backward(pass, gradient, gradient);
  stem_norm_.announce_gradients(pass);
  stem_conv_.backward(pass, gradient, {}, GradMode::overwrite);
  stem_conv_.announce_gradients(pass);
}

// In torchvision's order: modules as they run forward, weight before bias, and a block's downsample branch
// last.
std::vector<InitialValue> ResNet::Impl::initial_values() const {
  std::vector<InitialValue> values;
  const auto add = [&](const Conv2d& conv, const BatchNorm& norm, float gamma) {
    const Conv2dOptions& o = conv.options();
    const auto fan_out = static_cast<float>(o.c_out * o.kernel * o.kernel);
    values.push_back({conv.weight(), InitialValue::Kind::normal, std::sqrt(2.0f / fan_out)});
    values.push_back({norm.gamma(), InitialValue::Kind::constant, gamma});
    values.push_back({norm.beta(), InitialValue::Kind::constant, 0.0f});
  };
  add(stem_conv_, stem_norm_, 1.0f);
  for (const ResidualBlock& block : blocks_) {
    for (const ConvBatchNorm& step : block.path()) {
      const bool last = &step == &block.path().back();
      add(step.conv, step.norm, last ? options_.residual_gamma : 1.0f);
    }
    if (block.downsample()) add(block.downsample()->conv, block.downsample()->norm, 1.0f);
  }
  const float bound = 1.0f / std::sqrt(static_cast<float>(fc_->in()));
  values.push_back({fc_->weight(), InitialValue::Kind::uniform, bound});
  values.push_back({fc_->bias(), InitialValue::Kind::uniform, bound});
  return values;
}

ResNet::ResNet(const ResNetOptions& options, ParameterStore& store)
    : impl_(std::make_unique<Impl>(options, store)) {}
ResNet::~ResNet() = default;

void ResNet::layout(Arena& arena, std::int64_t batch, DType compute) {
  impl_->layout(arena, batch, compute);
}

std::int64_t ResNet::smallest_batch_norm_rows(std::int64_t n) const {
  // Every stride-2 layer (two in the ImageNet stem, one in each of layer2..layer4) halves the image, rounding
  // up.
  const int halvings = impl_->imagenet_ ? 5 : 3;
  std::int64_t h = impl_->options_.height, w = impl_->options_.width;
  for (int i = 0; i < halvings; ++i) {
    h = (h + 1) / 2;
    w = (w + 1) / 2;
  }
  return n * h * w;
}

void ResNet::initialize(Context& context, std::uint64_t seed) {
  initialize_parameters(context, impl_->store_, impl_->initial_values(), seed);
}

TensorView ResNet::input(std::int64_t n) const {
  return impl_->input_.first(n);
}
TensorView ResNet::logits_gradient(std::int64_t n) const {
  return impl_->logits_gradient_.first(n);
}

TensorView ResNet::forward(Context& context, std::int64_t n, Mode mode) {
  return impl_->forward({context, mode}, n);
}

void ResNet::backward(Context& context, std::int64_t n, Mode mode, GradMode gradients,
                      const GradientsReady& ready) {
  impl_->backward({context, mode, gradients, ready}, n);
}

std::vector<std::string> ResNet::registration_order() const {
  std::vector<std::string> names;
  for (const InitialValue& value : impl_->initial_values()) {
    names.push_back(impl_->store_.parameter(value.parameter).name);
  }
  return names;
}

}  // namespace lockstep
