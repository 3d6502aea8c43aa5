// The ops of the CPU backend: cpu_backend.cpp checks the contract and enqueues them; kernels/backend.h says
// what each one computes.
#pragma once

#include "kernels/cpu/machine.h"

namespace lockstep::cpu {

void conv2d_forward(Machine& machine, const ConvShape& shape, const TensorView& x, const TensorView& w,
                    const TensorView& y);
void conv2d_backward_data(Machine& machine, const ConvShape& shape, const TensorView& dy, const TensorView& w,
                          const TensorView& dx, GradMode mode);
void conv2d_backward_weight(Machine& machine, const ConvShape& shape, const TensorView& x,
                            const TensorView& dy, const TensorView& dw, GradMode mode);

void batch_norm_forward_training(Machine& machine, const BatchNormOptions& options, const TensorView& x,
                                 const TensorView& gamma, const TensorView& beta, const TensorView& residual,
                                 const TensorView& running_mean, const TensorView& running_var,
                                 const TensorView& saved_mean, const TensorView& saved_invstd,
                                 const TensorView& y);
void batch_norm_forward_evaluation(Machine& machine, const BatchNormOptions& options, const TensorView& x,
                                   const TensorView& gamma, const TensorView& beta,
                                   const TensorView& residual, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& y);
void batch_norm_backward(Machine& machine, const BatchNormOptions& options, const TensorView& x,
                         const TensorView& y, const TensorView& dy, const TensorView& gamma,
                         const TensorView& saved_mean, const TensorView& saved_invstd, const TensorView& dx,
                         const TensorView& dresidual, const TensorView& dgamma, const TensorView& dbeta,
                         GradMode parameter_mode);
void batch_norm_backward_evaluation(Machine& machine, const BatchNormOptions& options, const TensorView& x,
                                    const TensorView& y, const TensorView& dy, const TensorView& gamma,
                                    const TensorView& running_mean, const TensorView& running_var,
                                    const TensorView& dx, const TensorView& dresidual,
                                    const TensorView& dgamma, const TensorView& dbeta,
                                    GradMode parameter_mode);

void relu_forward(Machine& machine, const TensorView& x, const TensorView& y);
void relu_backward(Machine& machine, const TensorView& y, const TensorView& dy, const TensorView& dx);

void max_pool_forward(Machine& machine, const PoolShape& shape, const TensorView& x, const TensorView& y,
                      const TensorView& index);
void max_pool_backward(Machine& machine, const PoolShape& shape, const TensorView& dy,
                       const TensorView& index, const TensorView& dx);
void global_average_pool_forward(Machine& machine, const TensorView& x, const TensorView& y);
void global_average_pool_backward(Machine& machine, const TensorView& dy, const TensorView& dx);

void linear_forward(Machine& machine, const TensorView& x, const TensorView& w, const TensorView& bias,
                    const TensorView& y);
void linear_backward_data(Machine& machine, const TensorView& dy, const TensorView& w, const TensorView& dx);
void linear_backward_weight(Machine& machine, const TensorView& x, const TensorView& dy, const TensorView& dw,
                            const TensorView& dbias, GradMode mode);

void softmax_cross_entropy(Machine& machine, const TensorView& logits, const TensorView& labels,
                           float smoothing, const TensorView& gradient_scale, const TensorView& loss,
                           const TensorView& correct, const TensorView& dlogits);

void sgd_step(Machine& machine, const SgdOptions& options, const SgdControl& control, const TensorView& w,
              const TensorView& dw, const TensorView& v, const TensorView& working);
void update_loss_scale(Machine& machine, const LossScaleOptions& options, const TensorView& overflow,
                       const TensorView& scale, const TensorView& good_steps);

void augment_normalize(Machine& machine, const AugmentOptions& options, const TensorView& images,
                       const TensorView& samples, const TensorView& epoch, const TensorView& y);

void cast(Machine& machine, const TensorView& x, const TensorView& y);
void non_finite_check(Machine& machine, const TensorView& x, const TensorView& flag);
void copy_if(Machine& machine, const TensorView& flag, const TensorView& x, const TensorView& y);

void sum_of_squares(Machine& machine, const TensorView& x, const TensorView& sum);
void checksum(Machine& machine, const TensorView& x, const TensorView& sum);

}  // namespace lockstep::cpu
