// ReLU, conversion between compute types, the search for NaN and infinity, and what depends on it.
#include <algorithm>
#include <cmath>

#include "kernels/reference/numeric.h"
#include "kernels/reference/ops.h"

namespace lockstep::reference {

void relu_forward(const TensorView& x, const TensorView& y) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const T value = x.as<T>()[i];
      y.as<T>()[i] = load(value) < 0 ? T(0.0f) : value;  // a NaN stays
    }
  });
}

void relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx) {
  with_compute_type(y.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      dx.as<T>()[i] = load(y.as<T>()[i]) > 0 ? dy.as<T>()[i] : T(0.0f);
    }
  });
}

void cast(const TensorView& x, const TensorView& y) {
  with_compute_type(x.dtype, [&](auto from) {
    with_compute_type(y.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      for (std::int64_t i = 0; i < x.numel(); ++i) store(y.as<To>()[i], load(x.as<From>()[i]));
    });
  });
}

void non_finite_check(const TensorView& x, const TensorView& flag) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      if (!std::isfinite(load(x.as<T>()[i]))) flag.as<float>()[0] = 1;
    }
  });
}

void copy_if(const TensorView& flag, const TensorView& x, const TensorView& y) {
  if (flag.as<float>()[0] > 0) std::copy_n(x.as<float>(), x.numel(), y.as<float>());
}

}  // namespace lockstep::reference
