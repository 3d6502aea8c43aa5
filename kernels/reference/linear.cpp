// y = x w^T + bias and its gradients: dx = dy w, dw = dy^T x, dbias = column sums of dy.
#include <vector>

#include "kernels/reference/numeric.h"
#include "kernels/reference/ops.h"

namespace lockstep::reference {

using Index = std::int64_t;

void linear_forward(const TensorView& x, const TensorView& w, const TensorView& bias, const TensorView& y) {
  const Index batch = x.shape[0], in = x.shape[1], out = y.shape[1];
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (Index n = 0; n < batch; ++n) {
      for (Index o = 0; o < out; ++o) {
        const T* row = x.as<T>() + n * in;
        const T* weight = w.as<T>() + o * in;
        double sum = load(bias.as<float>()[o]);
        for (Index i = 0; i < in; ++i) sum += load(row[i]) * load(weight[i]);
        store(y.as<T>()[n * out + o], sum);
      }
    }
  });
}

void linear_backward_data(const TensorView& dy, const TensorView& w, const TensorView& dx) {
  const Index batch = dy.shape[0], in = dx.shape[1], out = dy.shape[1];
  with_compute_type(dy.dtype, [&](auto type) {
    using T = decltype(type);
    std::vector<double> sum(static_cast<std::size_t>(in));
    for (Index n = 0; n < batch; ++n) {
      sum.assign(sum.size(), 0.0);
      for (Index o = 0; o < out; ++o) {
        const double g = load(dy.as<T>()[n * out + o]);
        const T* weight = w.as<T>() + o * in;
        for (Index i = 0; i < in; ++i) sum[static_cast<std::size_t>(i)] += g * load(weight[i]);
      }
      for (Index i = 0; i < in; ++i) store(dx.as<T>()[n * in + i], sum[static_cast<std::size_t>(i)]);
    }
  });
}

void linear_backward_weight(const TensorView& x, const TensorView& dy, const TensorView& dw,
                            const TensorView& dbias, GradMode mode) {
  const Index batch = x.shape[0], in = x.shape[1], out = dy.shape[1];
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    std::vector<double> sum(static_cast<std::size_t>(in));
    for (Index o = 0; o < out; ++o) {
      sum.assign(sum.size(), 0.0);
      double bias_sum = 0;
      for (Index n = 0; n < batch; ++n) {
        const double g = load(dy.as<T>()[n * out + o]);
        const T* row = x.as<T>() + n * in;
        bias_sum += g;
        for (Index i = 0; i < in; ++i) sum[static_cast<std::size_t>(i)] += g * load(row[i]);
      }
      for (Index i = 0; i < in; ++i)
        store(dw.as<float>()[o * in + i], sum[static_cast<std::size_t>(i)], mode);
      store(dbias.as<float>()[o], bias_sum, mode);
    }
  });
}

}  // namespace lockstep::reference
