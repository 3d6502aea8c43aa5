// Batch norm over rows (N*H*W) for each channel, with the residual add and ReLU in the same op.
// S. Ioffe and C. Szegedy, "Batch normalization", 2015; running statistics as torch.nn.BatchNorm2d.
#include <cmath>
#include <vector>

#include "kernels/reference/numeric.h"
#include "kernels/reference/ops.h"

namespace lockstep::reference {
namespace {

// One value a channel.
using Channels = std::vector<double>;

struct Sizes {
  std::size_t rows, channels;
};

Sizes sizes_of(const TensorView& x) {
  const std::int64_t channels = x.shape[x.shape.rank() - 1];
  return {static_cast<std::size_t>(x.numel() / channels), static_cast<std::size_t>(channels)};
}

Channels load_channels(const TensorView& vector) {
  const float* values = vector.as<float>();
  return Channels(values, values + vector.numel());
}

Channels inverse_deviation(const Channels& variance, float epsilon) {
  Channels result(variance.size());
  for (std::size_t c = 0; c < result.size(); ++c) result[c] = 1.0 / std::sqrt(variance[c] + load(epsilon));
  return result;
}

// Two passes, mean first: the deviations are small even where the mean is large.
template <class T>
void batch_statistics(const Sizes& s, const T* x, Channels& mean, Channels& variance) {
  mean.assign(s.channels, 0.0);
  variance.assign(s.channels, 0.0);
  for (std::size_t row = 0; row < s.rows; ++row) {
    for (std::size_t c = 0; c < s.channels; ++c) mean[c] += load(x[row * s.channels + c]);
  }
  for (double& value : mean) value /= static_cast<double>(s.rows);
  for (std::size_t row = 0; row < s.rows; ++row) {
    for (std::size_t c = 0; c < s.channels; ++c) {
      const double deviation = load(x[row * s.channels + c]) - mean[c];
      variance[c] += deviation * deviation;
    }
  }
  for (double& value : variance) value /= static_cast<double>(s.rows);
}

// y = relu?((x - mean) * invstd * gamma + beta + residual?)
template <class T>
void normalize(const Sizes& s, bool relu, const T* x, const Channels& mean, const Channels& invstd,
               const Channels& gamma, const Channels& beta, const T* residual, T* y) {
  for (std::size_t row = 0; row < s.rows; ++row) {
    for (std::size_t c = 0; c < s.channels; ++c) {
      const std::size_t i = row * s.channels + c;
      double value = (load(x[i]) - mean[c]) * invstd[c] * gamma[c] + beta[c];
      if (residual) value += load(residual[i]);
      if (relu && value < 0) value = 0;  // a NaN stays
      store(y[i], value);
    }
  }
}

// g = dy, or where ReLU is on dy where y > 0 and 0 elsewhere.
template <class T>
double gradient(bool relu, const T* y, const T* dy, std::size_t i) {
  return (relu && !(load(y[i]) > 0)) ? 0.0 : load(dy[i]);
}

// dbeta = sum g, dgamma = sum g * xhat. Returned unrounded, stored by mode.
template <class T>
void parameter_gradients(const Sizes& s, bool relu, const T* x, const T* y, const T* dy, const Channels& mean,
                         const Channels& invstd, Channels& dgamma, Channels& dbeta) {
  dgamma.assign(s.channels, 0.0);
  dbeta.assign(s.channels, 0.0);
  for (std::size_t row = 0; row < s.rows; ++row) {
    for (std::size_t c = 0; c < s.channels; ++c) {
      const std::size_t i = row * s.channels + c;
      const double g = gradient(relu, y, dy, i);
      dbeta[c] += g;
      dgamma[c] += g * (load(x[i]) - mean[c]) * invstd[c];
    }
  }
}

void store_gradients(const Channels& sums, const TensorView& to, GradMode mode) {
  for (std::size_t c = 0; c < sums.size(); ++c) store(to.as<float>()[c], sums[c], mode);
}

// Both backward ops. batch_statistics: the statistics depend on x, so the gradient loses its mean and its
// part along xhat; else they are constants.
template <class T>
void backward(const BatchNormOptions& options, bool batch_statistics, const TensorView& x,
              const TensorView& y, const TensorView& dy, const Channels& gamma, const Channels& mean,
              const Channels& invstd, const TensorView& dx, const TensorView& dresidual,
              const TensorView& dgamma, const TensorView& dbeta, GradMode mode) {
  const Sizes s = sizes_of(x);
  const T* input = x.as<T>();
  const T* output = y ? y.as<T>() : nullptr;
  const T* upstream = dy.as<T>();
  T* result = dx.as<T>();
  T* residual = dresidual ? dresidual.as<T>() : nullptr;
  Channels sum_g_xhat, sum_g;
  parameter_gradients(s, options.relu, input, output, upstream, mean, invstd, sum_g_xhat, sum_g);
  const double share = batch_statistics ? 1.0 / static_cast<double>(s.rows) : 0.0;
  for (std::size_t row = 0; row < s.rows; ++row) {
    for (std::size_t c = 0; c < s.channels; ++c) {
      const std::size_t i = row * s.channels + c;
      // Both are read before anything is written: dx may be dy or x, dresidual may be dy.
      const double g = gradient(options.relu, output, upstream, i);
      const double xhat = (load(input[i]) - mean[c]) * invstd[c];
      if (residual) store(residual[i], g);
      store(result[i], gamma[c] * invstd[c] * (g - share * sum_g[c] - share * xhat * sum_g_xhat[c]));
    }
  }
  store_gradients(sum_g_xhat, dgamma, mode);
  store_gradients(sum_g, dbeta, mode);
}

}  // namespace

void batch_norm_forward_training(const BatchNormOptions& options, const TensorView& x,
                                 const TensorView& gamma, const TensorView& beta, const TensorView& residual,
                                 const TensorView& running_mean, const TensorView& running_var,
                                 const TensorView& saved_mean, const TensorView& saved_invstd,
                                 const TensorView& y) {
  const Sizes s = sizes_of(x);
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    Channels mean, variance;
    batch_statistics(s, x.as<T>(), mean, variance);
    const Channels invstd = inverse_deviation(variance, options.epsilon);
    normalize(s, options.relu, x.as<T>(), mean, invstd, load_channels(gamma), load_channels(beta),
              residual ? residual.as<T>() : nullptr, y.as<T>());

    const double momentum = load(options.momentum);
    const double unbiased = static_cast<double>(s.rows) / static_cast<double>(s.rows - 1);
    for (std::size_t c = 0; c < s.channels; ++c) {
      store(saved_mean.as<float>()[c], mean[c]);
      store(saved_invstd.as<float>()[c], invstd[c]);
      float& average_mean = running_mean.as<float>()[c];
      float& average_var = running_var.as<float>()[c];
      store(average_mean, (1 - momentum) * load(average_mean) + momentum * mean[c]);
      store(average_var, (1 - momentum) * load(average_var) + momentum * unbiased * variance[c]);
    }
  });
}

void batch_norm_forward_evaluation(const BatchNormOptions& options, const TensorView& x,
                                   const TensorView& gamma, const TensorView& beta,
                                   const TensorView& residual, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& y) {
  const Channels invstd = inverse_deviation(load_channels(running_var), options.epsilon);
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    normalize(sizes_of(x), options.relu, x.as<T>(), load_channels(running_mean), invstd, load_channels(gamma),
              load_channels(beta), residual ? residual.as<T>() : nullptr, y.as<T>());
  });
}

void batch_norm_backward(const BatchNormOptions& options, const TensorView& x, const TensorView& y,
                         const TensorView& dy, const TensorView& gamma, const TensorView& saved_mean,
                         const TensorView& saved_invstd, const TensorView& dx, const TensorView& dresidual,
                         const TensorView& dgamma, const TensorView& dbeta, GradMode parameter_mode) {
  with_compute_type(x.dtype, [&](auto type) {
    backward<decltype(type)>(options, true, x, y, dy, load_channels(gamma), load_channels(saved_mean),
                             load_channels(saved_invstd), dx, dresidual, dgamma, dbeta, parameter_mode);
  });
}

void batch_norm_backward_evaluation(const BatchNormOptions& options, const TensorView& x, const TensorView& y,
                                    const TensorView& dy, const TensorView& gamma,
                                    const TensorView& running_mean, const TensorView& running_var,
                                    const TensorView& dx, const TensorView& dresidual,
                                    const TensorView& dgamma, const TensorView& dbeta,
                                    GradMode parameter_mode) {
  const Channels invstd = inverse_deviation(load_channels(running_var), options.epsilon);
  with_compute_type(x.dtype, [&](auto type) {
    backward<decltype(type)>(options, false, x, y, dy, load_channels(gamma), load_channels(running_mean),
                             invstd, dx, dresidual, dgamma, dbeta, parameter_mode);
  });
}

}  // namespace lockstep::reference
