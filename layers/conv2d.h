// A convolution without bias, as torch.nn.Conv2d(bias=False): activations NHWC, weight [Cout][kh][kw][Cin].
#pragma once

#include <cstdint>
#include <string>

#include "core/arena.h"
#include "layers/parameter_store.h"
#include "layers/pass.h"

namespace lockstep {

struct Conv2dOptions {
  std::int64_t c_in = 0, c_out = 0;
  std::int64_t kernel = 1, stride = 1, padding = 0;
};

class Conv2d {
 public:
  Conv2d(std::string name, const Conv2dOptions& options) : name_(std::move(name)), options_(options) {}

  void declare_parameters(ParameterStore& store);  // NAME.weight
  // x: the input for the largest batch. Returns the output for it.
  TensorView layout(Arena& arena, const TensorView& x);

  // Keeps x (a view, not a copy) for the weight gradient: it must stay as it is until backward.
  TensorView forward(const ForwardPass& pass, const TensorView& x);
  // dx may be "no tensor" (the first layer of a network). It is done before the weight gradient, which is
  // then still in the cache when the optimiser or the reducer takes it.
  void backward(const BackwardPass& pass, const TensorView& dy, const TensorView& dx, GradMode dx_mode);
  void announce_gradients(const BackwardPass& pass) const { pass.ready(weight_, weight_); }

  int weight() const { return weight_; }
  const Conv2dOptions& options() const { return options_; }

 private:
  ConvShape shape_of(const TensorView& x) const;

  std::string name_;
  Conv2dOptions options_;
  const ParameterStore* store_ = nullptr;
  int weight_ = -1;
  TensorView input_;   // of the last forward
  TensorView output_;  // for the largest batch
};

}  // namespace lockstep
