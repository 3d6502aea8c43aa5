// The mean over H and W: [n,h,w,c] -> [n,c], as torch.nn.AdaptiveAvgPool2d(1) and a flatten.
#pragma once

#include <string>

#include "core/arena.h"
#include "layers/pass.h"

namespace lockstep {

class GlobalAveragePool {
 public:
  explicit GlobalAveragePool(std::string name) : name_(std::move(name)) {}

  TensorView layout(Arena& arena, const TensorView& x);  // x: the input for the largest batch
  TensorView forward(const ForwardPass& pass, const TensorView& x);
  void backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx);  // dx is overwritten

 private:
  std::string name_;
  TensorView output_;
};

}  // namespace lockstep
