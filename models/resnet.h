// ResNet v1.5 (He et al., 2015; the stride sits in the 3x3, as in torchvision): 18, 34, 50, 101, 152.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/arena.h"
#include "kernels/context.h"
#include "layers/parameter_store.h"
#include "layers/pass.h"

namespace lockstep {

struct ResNetOptions {
  std::string name = "resnet50";  // resnet18, resnet34, resnet50, resnet101, resnet152
  // imagenet: 7x7 stride 2 and 3x3 max pooling. cifar: 3x3 stride 1, no pooling.
  std::string stem = "imagenet";
  // Of the first stage and the stem; each further stage has twice as many. A multiple of 8.
  std::int64_t channels = 64;
  int classes = 10;
  std::int64_t height = 32, width = 32;
  float residual_gamma = 1.0f;  // initial weight of each block's last batch norm
};

class ResNet {
 public:
  // Declares all parameters (in ready order) and buffers (in torchvision's order) in `store`, which must
  // outlive the network. Error(usage) for an unknown name or stem, or a number of channels that is
  // no multiple of 8.
  ResNet(const ResNetOptions& options, ParameterStore& store);
  ~ResNet();

  // Lays out activations and gradients for up to `batch` samples. Called twice: measuring, then real. Tensors
  // that are never alive together share memory: all gradients of activations live in four buffers.
  void layout(Arena& arena, std::int64_t batch, DType compute);
  // The smallest N*H*W that a batch norm sees for n samples: training needs at least 2.
  std::int64_t smallest_batch_norm_rows(std::int64_t n) const;

  // torchvision's initialisation: convolutions kaiming_normal(fan_out, relu), batch norm 1 and 0, linear
  // uniform(+-1/sqrt(in)), and 0 for the running means, 1 for the variances. Values are Philox(seed, init):
  // parameter p (torchvision's order) takes substream p * 2^20 + k for its k-th chunk of 65,536 elements as
  // stored ([Cout,kh,kw,Cin]).
  void initialize(Context& context, std::uint64_t seed);

  TensorView input(std::int64_t n) const;  // [n,h,w,3]: the caller writes the normalised batch here
  TensorView forward(Context& context, std::int64_t n, Mode mode);  // logits [n,classes]
  TensorView logits_gradient(std::int64_t n) const;                 // the loss writes here before backward
  void backward(Context& context, std::int64_t n, Mode mode, GradMode gradients, const GradientsReady& ready);

  // Parameter names in torchvision's (registration) order: the order of files.
  std::vector<std::string> registration_order() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
