// torch.optim.SGD with dampening 0, over one flat range; also writes the working copy of the weights. Dynamic
// loss scaling.
#include <algorithm>
#include <cmath>

#include "kernels/reference/numeric.h"
#include "kernels/reference/ops.h"

namespace lockstep::reference {

void sgd_step(const SgdOptions& options, const SgdControl& control, const TensorView& w, const TensorView& dw,
              const TensorView& v, const TensorView& working) {
  if (control.skip && control.skip.as<float>()[0] > 0) return;
  const double learning_rate = load(control.learning_rate.as<float>()[0]);
  const double scale = control.gradient_scale ? load(control.gradient_scale.as<float>()[0]) : 1.0;
  const double momentum = load(options.momentum);
  const double weight_decay = load(options.weight_decay);
  float* weight = w.as<float>();
  const float* gradient = dw.as<float>();
  float* velocity = v.as<float>();
  for (std::int64_t i = 0; i < w.numel(); ++i) {
    const double g = load(gradient[i]) / scale + weight_decay * load(weight[i]);
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

void update_loss_scale(const LossScaleOptions& options, const TensorView& overflow, const TensorView& scale,
                       const TensorView& good_steps) {
  float& value = scale.as<float>()[0];
  float& good = good_steps.as<float>()[0];
  if (overflow.as<float>()[0] > 0) {
    value = std::max(options.floor, value * options.backoff);
    good = 0;
    return;
  }
  good += 1;
  if (good < options.growth_interval) return;
  good = 0;
  if (std::isfinite(value * options.growth)) value *= options.growth;
}

}  // namespace lockstep::reference
