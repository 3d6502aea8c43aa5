// SGD with momentum: one pass over a flat range that reads w, dw and v and writes w, v and the working copy.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/ops.h"

namespace lockstep::cpu {
namespace {

// `Working` is float or bfloat16, or void for no working copy.
template <class Working>
void step(const Threads& threads, const SgdOptions& options, float* w, const float* dw, float* v,
          Working* working, std::int64_t count) {
  const float decay = options.weight_decay, momentum = options.momentum, rate = options.learning_rate;
  const bool nesterov = options.nesterov;
  for_each_vec(threads, count, 20, [=](std::int64_t i, auto lanes) {
    const Vec weight = load(w + i, lanes);
    const Vec gradient = load(dw + i, lanes) + decay * weight;
    const Vec velocity = momentum * load(v + i, lanes) + gradient;
    const Vec direction = nesterov ? gradient + momentum * velocity : velocity;
    const Vec updated = weight - rate * direction;
    store(v + i, velocity, lanes);
    store(w + i, updated, lanes);
    if constexpr (!std::is_void_v<Working>) store(working + i, updated, lanes);
  });
}

}  // namespace

void sgd_step(Machine& machine, const SgdOptions& options, const TensorView& w, const TensorView& dw,
              const TensorView& v, const TensorView& working) {
  const auto with = [&](auto* copy) {
    step(machine.threads, options, w.as<float>(), dw.as<float>(), v.as<float>(), copy, w.numel());
  };
  if (!working) return with(static_cast<void*>(nullptr));
  with_compute_type(working.dtype, [&](auto type) { with(working.as<decltype(type)>()); });
}

}  // namespace lockstep::cpu
