// torch.optim.SGD with dampening 0, momentum, weight decay and Nesterov, over one flat range, and the cast of
// the new weights to the compute type in the same pass.
#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kPerThread = 8;  // one 16-byte store of bf16, two 16-byte accesses of every f32 tensor

struct Updated {
  float w, v;
};

// g = dw + weight_decay * w; v = momentum * v + g; w -= learning_rate * (nesterov ? g + momentum * v : v).
// The fused multiply-adds are spelled out: every compiler then rounds alike.
__device__ __forceinline__ Updated update(const SgdOptions& options, float w, float dw, float v) {
  const float g = fmaf(options.weight_decay, w, dw);
  const float velocity = fmaf(options.momentum, v, g);
  const float step = options.nesterov ? fmaf(options.momentum, velocity, g) : velocity;
  return {fmaf(-options.learning_rate, step, w), velocity};
}

// Mapping: a thread has kPerThread consecutive elements; the last thread of a range that does not divide goes
// element by element. working may be null. Bytes an element: reads 12 (w, dw, v), writes 8 (w, v) and 2
// (working, bf16). Deterministic.
template <class Working>
__global__ void sgd_step_kernel(SgdOptions options, float* w, const float* dw, float* v, Working* working,
                                std::int64_t count) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kPerThread;
  if (first + kPerThread > count) {
    for (std::int64_t i = first; i < count; ++i) {
      const Updated updated = update(options, w[i], dw[i], v[i]);
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
      const Updated updated = update(options, weight.values[i], gradient.values[i], velocity.values[i]);
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

template <class Working>
void run(Stream& stream, const SgdOptions& options, const TensorView& w, const TensorView& dw,
         const TensorView& v, const TensorView& working) {
  launch("sgd_step_kernel", stream, blocks_for(w.numel(), kThreads * kPerThread), kThreads,
         sgd_step_kernel<Working>, options, device_pointer<float>("sgd_step", w),
         device_pointer<float>("sgd_step", dw), device_pointer<float>("sgd_step", v),
         device_pointer<Working>("sgd_step", working), w.numel());
}

}  // namespace

void sgd_step(Stream& stream, const SgdOptions& options, const TensorView& w, const TensorView& dw,
              const TensorView& v, const TensorView& working) {
  contract::sgd_step(w, dw, v, working);
  if (working && working.dtype == DType::bf16) return run<__nv_bfloat16>(stream, options, w, dw, v, working);
  run<float>(stream, options, w, dw, v, working);
}

}  // namespace lockstep::cuda
