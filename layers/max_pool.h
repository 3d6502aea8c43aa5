// Max pooling, as torch.nn.MaxPool2d.
#pragma once

#include <cstdint>
#include <string>

#include "core/arena.h"
#include "layers/pass.h"

namespace lockstep {

class MaxPool {
 public:
  MaxPool(std::string name, std::int64_t kernel, std::int64_t stride, std::int64_t padding)
      : name_(std::move(name)), kernel_(kernel), stride_(stride), padding_(padding) {}

  TensorView layout(Arena& arena, const TensorView& x);  // x: the input for the largest batch
  TensorView forward(const ForwardPass& pass, const TensorView& x);
  void backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx);  // dx is overwritten

 private:
  PoolShape shape_of(const Shape& x) const;

  std::string name_;
  std::int64_t kernel_, stride_, padding_;
  TensorView output_, index_;  // index: where in its window each maximum was
};

}  // namespace lockstep
