// The classifier: three products with few columns (one a class).
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/ops.h"

namespace lockstep::cpu {
namespace {

// bf16 operands are multiplied as they are where the machine can, else as f32 copies.
struct Operand {
  const void* data;
  DType type;
};

Operand operand(Machine& m, const TensorView& view, Area area) {
  refuse_f16(view.dtype);
  if (view.dtype == DType::f32 || m.fast_bf16) return {view.data, view.dtype};
  float* wide = m.workspace.array<float>(area, view.numel());
  convert(m.threads, view.as<bfloat16>(), wide, view.numel());
  return {wide, DType::f32};
}

}  // namespace

void linear_forward(Machine& m, const TensorView& x, const TensorView& w, const TensorView& bias,
                    const TensorView& y) {
  const std::int64_t n = x.shape[0], in = x.shape[1], out = w.shape[0];
  const Operand a = operand(m, x, Area::source), b = operand(m, w, Area::gradient);
  // In f32 first, so that the bias is added before the one rounding to the compute type.
  float* result = m.workspace.array<float>(Area::result, n * out);
  m.primitives.matmul({n, in, out, in, in, out, false, true, false, a.type, DType::f32}, a.data, b.data,
                      result);
  with_compute_type(y.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < n; ++i) {
      for_lanes(0, out, [&](std::int64_t k, auto lanes) {
        const Vec value = load(result + i * out + k, lanes) + load(bias.as<float>() + k, lanes);
        store(y.as<T>() + i * out + k, value, lanes);
      });
    }
  });
}

void linear_backward_data(Machine& m, const TensorView& dy, const TensorView& w, const TensorView& dx) {
  const std::int64_t n = dx.shape[0], in = dx.shape[1], out = dy.shape[1];
  const Operand a = operand(m, dy, Area::source), b = operand(m, w, Area::gradient);
  const bool direct = a.type == dx.dtype;
  void* result = direct ? dx.data : m.workspace.array<float>(Area::result, n * in);
  m.primitives.matmul({n, out, in, out, in, in, false, false, false, a.type, a.type}, a.data, b.data, result);
  if (!direct) convert(m.threads, static_cast<const float*>(result), dx.as<bfloat16>(), n * in);
}

void linear_backward_weight(Machine& m, const TensorView& x, const TensorView& dy, const TensorView& dw,
                            const TensorView& dbias, GradMode mode) {
  const std::int64_t n = x.shape[0], in = x.shape[1], out = dy.shape[1];
  const bool accumulate = mode == GradMode::accumulate;
  const Operand a = operand(m, dy, Area::source), b = operand(m, x, Area::gradient);
  m.primitives.matmul({out, n, in, out, in, in, true, false, accumulate, a.type, DType::f32}, a.data, b.data,
                      dw.data);
  with_compute_type(dy.dtype, [&](auto type) {
    using T = decltype(type);
    for_lanes(0, out, [&](std::int64_t k, auto lanes) {
      Vec sum = accumulate ? load(dbias.as<float>() + k, lanes) : Vec{};
      for (std::int64_t i = 0; i < n; ++i) sum += load(dy.as<T>() + i * out + k, lanes);
      store(dbias.as<float>() + k, sum, lanes);
    });
  });
}

}  // namespace lockstep::cpu
