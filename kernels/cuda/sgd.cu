// torch.optim.SGD with dampening 0, momentum, weight decay and Nesterov, over one flat range, and the cast of
// the new weights to the compute type in the same pass. Dynamic loss scaling.
#include <cfloat>

#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kPerThread = 8;  // one 16-byte store of a 2-byte type, two 16-byte accesses of every f32 tensor

struct Updated {
  float w, v;
};

// The tensors of SgdControl; null: not given.
struct Control {
  const float* learning_rate;
  const float* skip;
  const float* gradient_scale;
};

// Of this step.
struct Values {
  float learning_rate, unscale;
};

// g = dw / gradient_scale + weight_decay * w; v = momentum * v + g; w -= learning_rate * (nesterov ? g +
// momentum * v : v). The fused multiply-adds are spelled out: every compiler then rounds alike.
__device__ __forceinline__ Updated update(const SgdOptions& options, const Values& values, float w, float dw,
                                          float v) {
  const float g = fmaf(options.weight_decay, w, dw * values.unscale);
  const float velocity = fmaf(options.momentum, v, g);
  const float step = options.nesterov ? fmaf(options.momentum, velocity, g) : velocity;
  return {fmaf(-values.learning_rate, step, w), velocity};
}

// Mapping: a thread has kPerThread consecutive elements; the last thread of a range that does not divide goes
// element by element. working may be null. Bytes an element: reads 12 (w, dw, v), writes 8 (w, v) and 2
// (working, bf16 or f16). Deterministic.
template <class Working>
__global__ void sgd_step_kernel(SgdOptions options, Control control, float* w, const float* dw, float* v,
                                Working* working, std::int64_t count) {
  if (control.skip && *control.skip > 0) return;
  const Values values{*control.learning_rate, control.gradient_scale ? 1.0f / *control.gradient_scale : 1.0f};
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kPerThread;
  if (first + kPerThread > count) {
    for (std::int64_t i = first; i < count; ++i) {
      const Updated updated = update(options, values, w[i], dw[i], v[i]);
      w[i] = updated.w;
      v[i] = updated.v;
      if (working) convert(updated.w, working[i]);
    }
    return;
  }
  alignas(16) Working copy[kPerThread];
  for (int part = 0; part < kPerThread; part += Vector<float>::kSize) {
    Vector<float> weight = load_vector(w + first + part);
    const Vector<float> gradient = load_vector(dw + first + part);
    Vector<float> velocity = load_vector(v + first + part);
    for (int i = 0; i < Vector<float>::kSize; ++i) {
      const Updated updated =
          update(options, values, weight.values[i], gradient.values[i], velocity.values[i]);
      weight.values[i] = updated.w;
      velocity.values[i] = updated.v;
      convert(updated.w, copy[part + i]);
    }
    store_vector(w + first + part, weight);
    store_vector(v + first + part, velocity);
  }
  if (!working) return;
  for (int part = 0; part < kPerThread; part += Vector<Working>::kSize) {
    store_vector(working + first + part, load_vector(copy + part));
  }
}

// As update_loss_scale in backend.h. Mapping: one thread. Deterministic.
__global__ void update_loss_scale_kernel(LossScaleOptions options, const float* overflow, float* scale,
                                         float* good_steps) {
  const bool overflowed = *overflow > 0;
  const float good = overflowed ? 0.0f : *good_steps + 1.0f;
  const bool grows = good >= options.growth_interval;
  *good_steps = grows ? 0.0f : good;
  if (overflowed) {
    *scale = fmaxf(options.floor, *scale * options.backoff);
  } else if (grows && *scale * options.growth <= FLT_MAX) {
    *scale *= options.growth;
  }
}

const float* value_of(const TensorView& view) {
  return view ? view.as<float>() : nullptr;
}

template <class Working>
void run(Stream& stream, const SgdOptions& options, const SgdControl& control, const TensorView& w,
         const TensorView& dw, const TensorView& v, const TensorView& working) {
  launch("sgd_step_kernel", stream, blocks_for(w.numel(), kThreads * kPerThread), kThreads,
         sgd_step_kernel<Working>, options,
         Control{value_of(control.learning_rate), value_of(control.skip), value_of(control.gradient_scale)},
         device_pointer<float>("sgd_step", w), device_pointer<float>("sgd_step", dw),
         device_pointer<float>("sgd_step", v), device_pointer<Working>("sgd_step", working), w.numel());
}

}  // namespace

void sgd_step(Stream& stream, const SgdOptions& options, const SgdControl& control, const TensorView& w,
              const TensorView& dw, const TensorView& v, const TensorView& working) {
  contract::sgd_step(control, w, dw, v, working);
  with_compute_type(working ? working.dtype : DType::f32,
                    [&](auto type) { run<decltype(type)>(stream, options, control, w, dw, v, working); });
}

void update_loss_scale(Stream& stream, const LossScaleOptions& options, const TensorView& overflow,
                       const TensorView& scale, const TensorView& good_steps) {
  contract::update_loss_scale(overflow, scale, good_steps);
  launch("update_loss_scale_kernel", stream, 1, 1, update_loss_scale_kernel, options, overflow.as<float>(),
         scale.as<float>(), good_steps.as<float>());
}

}  // namespace lockstep::cuda
