// y = x w^T + bias, as torch.nn.Linear.
#pragma once

#include <cstdint>
#include <string>

#include "core/arena.h"
#include "layers/parameter_store.h"
#include "layers/pass.h"

namespace lockstep {

class Linear {
 public:
  Linear(std::string name, std::int64_t in, std::int64_t out) : name_(std::move(name)), in_(in), out_(out) {}

  // NAME.bias, then NAME.weight: PyTorch's autograd makes the bias ready first.
  void declare_parameters(ParameterStore& store);
  TensorView layout(Arena& arena, const TensorView& x);  // x: the input for the largest batch

  TensorView forward(const ForwardPass& pass, const TensorView& x);  // keeps x for the weight gradient
  void backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx);  // dx is overwritten
  void announce_gradients(const BackwardPass& pass) const { pass.ready(bias_, weight_); }

  int weight() const { return weight_; }
  int bias() const { return bias_; }
  std::int64_t in() const { return in_; }

 private:
  std::string name_;
  std::int64_t in_, out_;
  const ParameterStore* store_ = nullptr;
  int weight_ = -1, bias_ = -1;
  TensorView input_;  // of the last forward
  TensorView output_;
};

}  // namespace lockstep
