// ReLU, conversion between compute types, the search for NaN and infinity, and what depends on it.
#include <atomic>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/ops.h"

namespace lockstep::cpu {

void relu_forward(Machine& machine, const TensorView& x, const TensorView& y) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    for_each_vec(machine.threads, x.numel(), 2 * sizeof(T),
                 [from = x.as<T>(), to = y.as<T>()](std::int64_t i, auto lanes) {
                   store(to + i, relu(load(from + i, lanes)), lanes);
                 });
  });
}

void relu_backward(Machine& machine, const TensorView& y, const TensorView& dy, const TensorView& dx) {
  with_compute_type(y.dtype, [&](auto type) {
    using T = decltype(type);
    for_each_vec(machine.threads, y.numel(), 3 * sizeof(T),
                 [out = y.as<T>(), from = dy.as<T>(), to = dx.as<T>()](std::int64_t i, auto lanes) {
                   const Vec gradient = load(from + i, lanes);
                   store(to + i, load(out + i, lanes) > 0.0f ? gradient : Vec{}, lanes);
                 });
  });
}

void cast(Machine& machine, const TensorView& x, const TensorView& y) {
  with_compute_type(x.dtype, [&](auto from) {
    with_compute_type(y.dtype, [&](auto to) {
      convert(machine.threads, x.as<decltype(from)>(), y.as<decltype(to)>(), x.numel());
    });
  });
}

void non_finite_check(Machine& machine, const TensorView& x, const TensorView& flag) {
  std::atomic<bool> found = false;
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    machine.threads.split(x.numel(), 256, x.bytes(), [&](std::int64_t begin, std::int64_t end) {
      // value - value is zero for a finite value and NaN for any other.
      Vec sum{};
      for_lanes(begin, end, [&](std::int64_t i, auto lanes) {
        const Vec value = load(x.as<T>() + i, lanes);
        sum += value - value;
      });
      for (int lane = 0; lane < kLanes; ++lane) {
        if (sum[lane] != 0.0f) found = true;
      }
    });
  });
  if (found) flag.as<float>()[0] = 1;
}

void copy_if(Machine& machine, const TensorView& flag, const TensorView& x, const TensorView& y) {
  if (flag.as<float>()[0] > 0) convert(machine.threads, x.as<float>(), y.as<float>(), x.numel());
}

}  // namespace lockstep::cpu
