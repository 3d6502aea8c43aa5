// Batch norm over all but the last dimension, with the residual add and the ReLU that follow it in a residual
// network (one op each way). As torch.nn.BatchNorm2d(momentum=0.1, eps=1e-5): the running variance is the
// unbiased one.
#pragma once

#include <cstdint>
#include <string>

#include "core/arena.h"
#include "layers/parameter_store.h"
#include "layers/pass.h"

namespace lockstep {

class BatchNorm {
 public:
  BatchNorm(std::string name, std::int64_t channels, bool relu)
      : name_(std::move(name)), channels_(channels) {
    options_.relu = relu;
  }

  void declare_parameters(ParameterStore& store);  // NAME.weight (gamma), NAME.bias (beta)
  void declare_buffers(ParameterStore& store);     // NAME.running_mean, NAME.running_var
  // x: the input for the largest batch. Returns the output for it: in new memory, or in `output` where given,
  // which may be the residual's.
  TensorView layout(Arena& arena, const TensorView& x, const TensorView& output = {});

  // residual may be "no tensor". Keeps x for backward; training also keeps the batch's mean and 1/deviation.
  TensorView forward(const ForwardPass& pass, const TensorView& x, const TensorView& residual = {});
  // dx may be dy. dresidual (the gradient after the ReLU) may be dy or "no tensor". pass.mode is that of
  // forward.
  void backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx,
                const TensorView& dresidual = {});
  void announce_gradients(const BackwardPass& pass) const { pass.ready(gamma_, beta_); }

  int gamma() const { return gamma_; }
  int beta() const { return beta_; }

 private:
  std::string name_;
  std::int64_t channels_;
  BatchNormOptions options_;
  const ParameterStore* store_ = nullptr;
  int gamma_ = -1, beta_ = -1;
  int running_mean_ = -1, running_var_ = -1;
  TensorView input_;  // of the last forward
  TensorView output_, saved_mean_, saved_invstd_;
};

}  // namespace lockstep
