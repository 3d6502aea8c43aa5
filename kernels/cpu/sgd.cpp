// SGD with momentum: one pass over a flat range that reads w, dw and v and writes w, v and the working copy.
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
void step(const Threads& threads, const SgdOptions& options, float* w, const float* dw, float* v,
          Working* working, std::int64_t count) {
  const float decay = options.weight_decay, momentum = options.momentum, rate = options.learning_rate;
  const bool nesterov = options.nesterov, aligned = is_aligned(w) && is_aligned(working);
  for_each_vec(threads, count, 20, [=](std::int64_t i, auto lanes) {
    const Vec weight = load(w + i, lanes);
    const Vec gradient = load(dw + i, lanes) + decay * weight;
    const Vec velocity = momentum * load(v + i, lanes) + gradient;
    const Vec direction = nesterov ? gradient + momentum * velocity : velocity;
    const Vec updated = weight - rate * direction;
    store(v + i, velocity, lanes);
    store_shared(w + i, updated, lanes, aligned);
    if constexpr (!std::is_void_v<Working>) store_shared(working + i, updated, lanes, aligned);
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
