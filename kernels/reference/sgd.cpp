// torch.optim.SGD with dampening 0, over one flat range; also writes the working copy of the weights.
#include "kernels/reference/numeric.h"
#include "kernels/reference/ops.h"

namespace lockstep::reference {

void sgd_step(const SgdOptions& options, const TensorView& w, const TensorView& dw, const TensorView& v,
              const TensorView& working) {
  const double learning_rate = load(options.learning_rate);
  const double momentum = load(options.momentum);
  const double weight_decay = load(options.weight_decay);
  float* weight = w.as<float>();
  const float* gradient = dw.as<float>();
  float* velocity = v.as<float>();
  for (std::int64_t i = 0; i < w.numel(); ++i) {
    const double g = load(gradient[i]) + weight_decay * load(weight[i]);
    const double new_velocity = momentum * load(velocity[i]) + g;
    const double step = options.nesterov ? g + momentum * new_velocity : new_velocity;
    store(weight[i], load(weight[i]) - learning_rate * step);
    store(velocity[i], new_velocity);
  }
  if (!working) return;
  with_compute_type(working.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < w.numel(); ++i) store(working.as<T>()[i], load(weight[i]));
  });
}

}  // namespace lockstep::reference
