// SGD with momentum: one pass over a flat range that reads w, dw and v and writes w, v and the working copy.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/ops.h"

namespace lockstep::cpu {
namespace {

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(Vec) == 0;
}

// What is written here was read by every core: so it goes past the caches where it can.
template <class T, class Lanes>
LOCKSTEP_INLINE void store_shared(T* to, Vec value, Lanes lanes, bool aligned) {
  if (aligned && std::is_same_v<Lanes, AllLanes>) {
    store_past_caches(to, value);
  } else {
    store(to, value, lanes);
  }
}

// `Working` is float or bfloat16, or void for no working copy.
template <class Working>
void step(const Threads& threads, const SgdOptions& options, float rate, float unscale, float* w,
          const float* dw, float* v, Working* working, std::int64_t count) {
  const float decay = options.weight_decay, momentum = options.momentum;
  const bool nesterov = options.nesterov, aligned = is_aligned(w) && is_aligned(working);
  for_each_vec(threads, count, 20, [=](std::int64_t i, auto lanes) {
    const Vec weight = load(w + i, lanes);
    const Vec gradient = unscale * load(dw + i, lanes) + decay * weight;
    const Vec velocity = momentum * load(v + i, lanes) + gradient;
    const Vec direction = nesterov ? gradient + momentum * velocity : velocity;
    const Vec updated = weight - rate * direction;
    store(v + i, velocity, lanes);
    store_shared(w + i, updated, lanes, aligned);
    if constexpr (!std::is_void_v<Working>) store_shared(working + i, updated, lanes, aligned);
  });
}

}  // namespace

void sgd_step(Machine& machine, const SgdOptions& options, const SgdControl& control, const TensorView& w,
              const TensorView& dw, const TensorView& v, const TensorView& working) {
  if (control.skip && control.skip.as<float>()[0] > 0) return;
  const float rate = control.learning_rate.as<float>()[0];
  const float unscale = control.gradient_scale ? 1.0f / control.gradient_scale.as<float>()[0] : 1.0f;
  const auto with = [&](auto* copy) {
    step(machine.threads, options, rate, unscale, w.as<float>(), dw.as<float>(), v.as<float>(), copy,
         w.numel());
  };
  if (!working) return with(static_cast<void*>(nullptr));
  with_compute_type(working.dtype, [&](auto type) { with(working.as<decltype(type)>()); });
}

void update_loss_scale(Machine&, const LossScaleOptions& options, const TensorView& overflow,
                       const TensorView& scale, const TensorView& good_steps) {
  float& value = scale.as<float>()[0];
  float& good = good_steps.as<float>()[0];
  const bool overflowed = overflow.as<float>()[0] > 0;
  good = overflowed ? 0.0f : good + 1;
  if (overflowed) {
    value = std::max(options.floor, value * options.backoff);
  } else if (good >= options.growth_interval) {
    good = 0;
    if (std::isfinite(value * options.growth)) value *= options.growth;
  }
}

}  // namespace lockstep::cpu
