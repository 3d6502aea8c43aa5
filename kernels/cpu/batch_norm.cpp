// Batch norm with the residual add and ReLU in the same passes. With many rows the threads share the rows
// (batch_norm_by_rows.cpp), else, here, the channels: no sum crosses threads, and a thread makes the
// elementwise pass of a block of channels while its rows are still in the cache.
#include "kernels/cpu/batch_norm_passes.h"
#include "kernels/cpu/ops.h"

namespace lockstep::cpu {
namespace {

using namespace batch_norm;

// Calls body for the blocks of all channels, spread over the threads.
template <class Body>
void for_all_blocks(const Threads& threads, Index rows, Index channels, const Body& body) {
  threads.split(channels, kLanes, rows * channels * 4,
                [&](Index begin, Index end) { for_blocks(begin, end, body); });
}

// Mean and gamma * invstd of up to 64 channels.
struct Coefficients {
  float mean[4 * kLanes], scale[4 * kLanes];
};

template <int kVecs, class T, class Lanes>
LOCKSTEP_INLINE void train_block(const Forward<T>& f, Index c, Lanes lanes) {
  double mean[kVecs * kLanes], deviation[kVecs * kLanes];
  moments<kVecs>(f.x + c, f.rows, f.channels, lanes, mean, deviation);
  Coefficients k;
  finish_statistics(f, c, (kVecs - 1) * kLanes + lanes.count(), mean, deviation, k.mean, k.scale);
  normalize<kVecs>(f, c, k.mean, k.scale, lanes);
}

template <int kVecs, class T, class Lanes>
LOCKSTEP_INLINE void evaluate_block(const Forward<T>& f, Index c, Lanes lanes) {
  Coefficients k;
  for (Index j = 0; j < (kVecs - 1) * kLanes + lanes.count(); ++j) {
    k.mean[j] = f.running_mean[c + j];
    k.scale[j] = f.gamma[c + j] / std::sqrt(f.running_var[c + j] + f.options.epsilon);
  }
  normalize<kVecs>(f, c, k.mean, k.scale, lanes);
}

template <bool kRelu, int kVecs, class T, class Lanes>
LOCKSTEP_INLINE void backward_block(const Backward<T>& b, Index c, Lanes lanes) {
  constexpr Index kSize = kVecs * kLanes;
  float scale[kSize], mean_g[kSize], slope[kSize];
  double g_sum[kSize] = {}, gx_sum[kSize] = {};
  gradient_sums<kRelu, kVecs>(b, c, lanes, g_sum, gx_sum);
  finish_gradients(b, c, (kVecs - 1) * kLanes + lanes.count(), g_sum, gx_sum, scale, mean_g, slope);
  input_gradient<kRelu, kVecs>(b, c, scale, mean_g, slope, lanes);
}

template <class T>
T* optional(const TensorView& view) {
  return view ? view.as<T>() : nullptr;
}

template <bool kRelu, class T>
void backward(Machine& m, const Backward<T>& b) {
  if (shares_rows(m.threads, b.rows)) return backward_by_rows(m, b);
  for_all_blocks(m.threads, b.rows, b.channels,
                 [&](Index c, auto vecs, auto lanes) { backward_block<kRelu, vecs()>(b, c, lanes); });
}

template <class T>
void backward(Machine& m, const Backward<T>& b) {
  b.options.relu ? backward<true>(m, b) : backward<false>(m, b);
}

}  // namespace

void batch_norm_forward_training(Machine& machine, const BatchNormOptions& options, const TensorView& x,
                                 const TensorView& gamma, const TensorView& beta, const TensorView& residual,
                                 const TensorView& running_mean, const TensorView& running_var,
                                 const TensorView& saved_mean, const TensorView& saved_invstd,
                                 const TensorView& y) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Index channels = gamma.numel();
    const Forward<T> f{options,
                       x.numel() / channels,
                       channels,
                       x.as<T>(),
                       optional<T>(residual),
                       gamma.as<float>(),
                       beta.as<float>(),
                       running_mean.as<float>(),
                       running_var.as<float>(),
                       saved_mean.as<float>(),
                       saved_invstd.as<float>(),
                       y.as<T>()};
    if (shares_rows(machine.threads, f.rows)) return forward_by_rows(machine, f);
    for_all_blocks(machine.threads, f.rows, channels,
                   [&](Index c, auto vecs, auto lanes) { train_block<vecs()>(f, c, lanes); });
  });
}

void batch_norm_forward_evaluation(Machine& machine, const BatchNormOptions& options, const TensorView& x,
                                   const TensorView& gamma, const TensorView& beta,
                                   const TensorView& residual, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& y) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Index channels = gamma.numel();
    const Forward<T> f{options,
                       x.numel() / channels,
                       channels,
                       x.as<T>(),
                       optional<T>(residual),
                       gamma.as<float>(),
                       beta.as<float>(),
                       running_mean.as<float>(),
                       running_var.as<float>(),
                       nullptr,
                       nullptr,
                       y.as<T>()};
    for_all_blocks(machine.threads, f.rows, channels,
                   [&](Index c, auto vecs, auto lanes) { evaluate_block<vecs()>(f, c, lanes); });
  });
}

void batch_norm_backward(Machine& machine, const BatchNormOptions& options, const TensorView& x,
                         const TensorView& y, const TensorView& dy, const TensorView& gamma,
                         const TensorView& saved_mean, const TensorView& saved_invstd, const TensorView& dx,
                         const TensorView& dresidual, const TensorView& dgamma, const TensorView& dbeta,
                         GradMode parameter_mode) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Index channels = gamma.numel();
    backward(machine,
             Backward<T>{options, true, x.numel() / channels, channels, x.as<T>(), optional<T>(y), dy.as<T>(),
                         gamma.as<float>(), saved_mean.as<float>(), saved_invstd.as<float>(), dx.as<T>(),
                         optional<T>(dresidual), dgamma.as<float>(), dbeta.as<float>(),
                         parameter_mode == GradMode::accumulate});
  });
}

void batch_norm_backward_evaluation(Machine& machine, const BatchNormOptions& options, const TensorView& x,
                                    const TensorView& y, const TensorView& dy, const TensorView& gamma,
                                    const TensorView& running_mean, const TensorView& running_var,
                                    const TensorView& dx, const TensorView& dresidual,
                                    const TensorView& dgamma, const TensorView& dbeta,
                                    GradMode parameter_mode) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Index channels = gamma.numel();
    backward(machine,
             Backward<T>{options, false, x.numel() / channels, channels, x.as<T>(), optional<T>(y),
                         dy.as<T>(), gamma.as<float>(), running_mean.as<float>(), running_var.as<float>(),
                         dx.as<T>(), optional<T>(dresidual), dgamma.as<float>(), dbeta.as<float>(),
                         parameter_mode == GradMode::accumulate});
  });
}

}  // namespace lockstep::cpu
