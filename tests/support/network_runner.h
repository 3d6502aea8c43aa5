// A network with its memory, and the steps that comparisons take with it.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "layers/softmax_cross_entropy.h"
#include "models/resnet.h"
#include "support/harness.h"

namespace lockstep::test {

class NetworkRunner : public Harness {
 public:
  NetworkRunner(const Device& device, const ResNetOptions& options, std::int64_t batch,
                DType compute = DType::f32)
      : Harness(device), net(options, store) {
    Allocator& memory = context.backend.allocator();
    store.allocate(memory, memory, compute);
    Arena measuring;
    lay_out(measuring, batch, compute);
    arena_ = Arena(memory, measuring.peak());
    lay_out(arena_, batch, compute);
  }

  // One forward, loss and backward; returns the loss. images: f32 [n,h,w,3] and labels [n] in host memory.
  float step(
      std::span<const float> images, std::span<const std::int32_t> labels, Mode mode, GradMode gradients,
      const GradientsReady& ready = [](int, int) {}) {
    Backend& backend = context.backend;
    Stream& stream = context.stream;
    const auto n = static_cast<std::int64_t>(labels.size());
    const TensorView input = net.input(n);
    const TensorView staged = input.dtype == DType::f32 ? input : images_.first(n);
    backend.copy_to_device(stream, staged.data, images.data(), staged.bytes());
    if (input.dtype != DType::f32) backend.cast(stream, staged, input);
    backend.copy_to_device(stream, labels_.data, labels.data(), labels_.first(n).bytes());
    const TensorView logits = net.forward(context, n, mode);
    loss_.forward({context, mode}, logits, labels_.first(n), {}, net.logits_gradient(n));
    net.backward(context, n, mode, gradients, ready);
    float loss = 0;
    backend.copy_to_host(stream, &loss, loss_.loss().data, sizeof loss);
    stream.synchronize();
    return loss;
  }

  void sgd(float learning_rate, const SgdOptions& options) {
    context.backend.copy_to_device(context.stream, rate_.data, &learning_rate, sizeof learning_rate);
    context.backend.sgd_step(context.stream, options, {rate_, {}, {}}, store.all_weights(),
                             store.all_gradients(), store.all_momenta(),
                             store.workings(0, store.count() - 1));
  }

  std::vector<float> to_host(const TensorView& t) {
    std::vector<float> host(static_cast<std::size_t>(t.numel()));
    context.backend.copy_to_host(context.stream, host.data(), t.data, t.bytes());
    context.stream.synchronize();
    return host;
  }
  void to_device(const TensorView& t, std::span<const float> host) {
    LOCKSTEP_CHECK(t.numel() == static_cast<std::int64_t>(host.size()), "{} values for {}", host.size(),
                   t.shape.to_string());
    context.backend.copy_to_device(context.stream, t.data, host.data(), t.bytes());
  }

  ParameterStore store;
  ResNet net;

 private:
  void lay_out(Arena& arena, std::int64_t batch, DType compute) {
    net.layout(arena, batch, compute);
    loss_.layout(arena);
    labels_ = arena.tensor(DType::i32, Layout::flat, Shape{batch});
    rate_ = arena.tensor(DType::f32, Layout::flat, Shape{1});
    if (compute != DType::f32) images_ = arena.tensor(DType::f32, Layout::nhwc, net.input(batch).shape);
  }

  Arena arena_;
  SoftmaxCrossEntropy loss_{"loss", 0.0f};
  TensorView labels_, images_, rate_;
};

}  // namespace lockstep::test
