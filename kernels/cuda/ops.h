// The CUDA ops of this build: each checks the contract (kernels/backend.h) and launches its kernel on a
// CudaStream. Those that need scratch memory or a library's handle take the device's Machine.
#pragma once

#include "kernels/backend.h"

namespace lockstep::cuda {

struct Machine;

// Ten times the lowest compute capability that the kernels run on: 90.
int oldest_architecture();

void copy_to_device(Stream& stream, void* dst, const void* host_src, std::int64_t bytes);
void copy_to_host(Stream& stream, void* host_dst, const void* src, std::int64_t bytes);
void copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes);
void fill_zero(Stream& stream, void* dst, std::int64_t bytes);

void batch_norm_forward_training(Machine& machine, Stream& stream, const BatchNormOptions& options,
                                 const TensorView& x, const TensorView& gamma, const TensorView& beta,
                                 const TensorView& residual, const TensorView& running_mean,
                                 const TensorView& running_var, const TensorView& saved_mean,
                                 const TensorView& saved_invstd, const TensorView& y);
void batch_norm_forward_evaluation(Stream& stream, const BatchNormOptions& options, const TensorView& x,
                                   const TensorView& gamma, const TensorView& beta,
                                   const TensorView& residual, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& y);
void batch_norm_backward(Machine& machine, Stream& stream, const BatchNormOptions& options,
                         const TensorView& x, const TensorView& y, const TensorView& dy,
                         const TensorView& gamma, const TensorView& saved_mean,
                         const TensorView& saved_invstd, const TensorView& dx, const TensorView& dresidual,
                         const TensorView& dgamma, const TensorView& dbeta, GradMode parameter_mode);
void batch_norm_backward_evaluation(Machine& machine, Stream& stream, const BatchNormOptions& options,
                                    const TensorView& x, const TensorView& y, const TensorView& dy,
                                    const TensorView& gamma, const TensorView& running_mean,
                                    const TensorView& running_var, const TensorView& dx,
                                    const TensorView& dresidual, const TensorView& dgamma,
                                    const TensorView& dbeta, GradMode parameter_mode);

void relu_forward(Stream& stream, const TensorView& x, const TensorView& y);
void relu_backward(Stream& stream, const TensorView& y, const TensorView& dy, const TensorView& dx);

void max_pool_forward(Stream& stream, const PoolShape& shape, const TensorView& x, const TensorView& y,
                      const TensorView& index);
void max_pool_backward(Stream& stream, const PoolShape& shape, const TensorView& dy, const TensorView& index,
                       const TensorView& dx);
void global_average_pool_forward(Stream& stream, const TensorView& x, const TensorView& y);
void global_average_pool_backward(Stream& stream, const TensorView& dy, const TensorView& dx);

void linear_forward(Machine& machine, Stream& stream, const TensorView& x, const TensorView& w,
                    const TensorView& bias, const TensorView& y);
void linear_backward_data(Machine& machine, Stream& stream, const TensorView& dy, const TensorView& w,
                          const TensorView& dx);
void linear_backward_weight(Machine& machine, Stream& stream, const TensorView& x, const TensorView& dy,
                            const TensorView& dw, const TensorView& dbias, GradMode mode);

// A label that is no class makes the loss NaN.
void softmax_cross_entropy(Machine& machine, Stream& stream, const TensorView& logits,
                           const TensorView& labels, float smoothing, const TensorView& gradient_scale,
                           const TensorView& loss, const TensorView& correct, const TensorView& dlogits);

void sgd_step(Stream& stream, const SgdOptions& options, const SgdControl& control, const TensorView& w,
              const TensorView& dw, const TensorView& v, const TensorView& working);
void update_loss_scale(Stream& stream, const LossScaleOptions& options, const TensorView& overflow,
                       const TensorView& scale, const TensorView& good_steps);

void augment_normalize(Stream& stream, const AugmentOptions& options, const TensorView& images,
                       const TensorView& samples, const TensorView& epoch, const TensorView& y);

void cast(Stream& stream, const TensorView& x, const TensorView& y);
void non_finite_check(Stream& stream, const TensorView& x, const TensorView& flag);
void copy_if(Stream& stream, const TensorView& flag, const TensorView& x, const TensorView& y);

void sum_of_squares(Machine& machine, Stream& stream, const TensorView& x, const TensorView& sum);
void checksum(Machine& machine, Stream& stream, const TensorView& x, const TensorView& sum);

}  // namespace lockstep::cuda
