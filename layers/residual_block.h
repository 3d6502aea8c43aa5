// A residual block: y = relu(path(x) + shortcut(x)).
//
//        x --> conv, bn, relu --> ... --> conv, bn ---(+)-- relu --> y
//         \-- identity, or a 1x1 conv and a bn -----/
//
// The last batch norm, the addition and the ReLU are one op. Backward goes in the order in which PyTorch's
// autograd makes gradients ready: the shortcut first (it was computed last), then the path from its end.
//
// Gradients of activations: the shortcut's gradient is dy itself, masked by the ReLU in place. Where the
// shortcut is the identity, this is already a part of dx, and the first convolution adds the rest to it: dx
// lies where dy lay, and nothing is copied. Inside the path two scratch buffers alternate.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layers/batch_norm.h"
#include "layers/conv2d.h"

namespace lockstep {

struct ConvBatchNorm {
  Conv2d conv;
  BatchNorm norm;
};

class ResidualBlock {
 public:
  ResidualBlock(std::string name, std::vector<ConvBatchNorm> path, std::optional<ConvBatchNorm> downsample);

  void declare_parameters(ParameterStore& store);  // in ready order
  void declare_buffers(ParameterStore& store);     // in torchvision's order
  // x: the input for the largest batch. Returns the output for it.
  TensorView layout(Arena& arena, const TensorView& x);
  // Elements of the two scratch buffers that backward needs for the largest batch; valid after layout().
  std::array<std::int64_t, 2> scratch_elements() const;
  // Flat buffers of at least those sizes. All blocks may use the same.
  void use_scratch(const std::array<TensorView, 2>& scratch) { scratch_ = scratch; }

  TensorView forward(const ForwardPass& pass, const TensorView& x);
  // Overwrites dy. Returns the gradient of x: in dy's memory where the shortcut is the identity, else in
  // `other`, which is any memory that is large enough.
  TensorView backward(const BackwardPass& pass, const TensorView& dy, const TensorView& other);

  const std::vector<ConvBatchNorm>& path() const { return path_; }
  const std::optional<ConvBatchNorm>& downsample() const { return downsample_; }
  std::int64_t c_out() const { return path_.back().conv.options().c_out; }

 private:
  std::string name_;
  std::vector<ConvBatchNorm> path_;
  std::optional<ConvBatchNorm> downsample_;
  std::vector<Shape> path_shapes_;  // outputs of the path's convolutions, for the largest batch
  Shape input_shape_;               // of the last forward
  // Gradients inside the path: of convolution i's output in scratch_[i % 2].
  std::array<TensorView, 2> scratch_;
};

// Two 3x3 convolutions (ResNet-18 and 34). A downsample branch where the shape changes.
ResidualBlock make_basic_block(const std::string& name, std::int64_t c_in, std::int64_t width,
                               std::int64_t stride);
// 1x1, 3x3 with the stride, 1x1 to four times the width (ResNet-50 and deeper, v1.5).
ResidualBlock make_bottleneck(const std::string& name, std::int64_t c_in, std::int64_t width,
                              std::int64_t stride);

}  // namespace lockstep
