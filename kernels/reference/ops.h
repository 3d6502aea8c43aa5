// The reference ops: host loops without streams. reference_backend.cpp checks the contract and enqueues them;
// kernels/backend.h says what each one computes.
#pragma once

#include "kernels/backend.h"

namespace lockstep::reference {

void conv2d_forward(const ConvShape& shape, const TensorView& x, const TensorView& w, const TensorView& y);
void conv2d_backward_data(const ConvShape& shape, const TensorView& dy, const TensorView& w,
                          const TensorView& dx, GradMode mode);
void conv2d_backward_weight(const ConvShape& shape, const TensorView& x, const TensorView& dy,
                            const TensorView& dw, GradMode mode);

void batch_norm_forward_training(const BatchNormOptions& options, const TensorView& x,
                                 const TensorView& gamma, const TensorView& beta, const TensorView& residual,
                                 const TensorView& running_mean, const TensorView& running_var,
                                 const TensorView& saved_mean, const TensorView& saved_invstd,
                                 const TensorView& y);
void batch_norm_forward_evaluation(const BatchNormOptions& options, const TensorView& x,
                                   const TensorView& gamma, const TensorView& beta,
                                   const TensorView& residual, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& y);
void batch_norm_backward(const BatchNormOptions& options, const TensorView& x, const TensorView& y,
                         const TensorView& dy, const TensorView& gamma, const TensorView& saved_mean,
                         const TensorView& saved_invstd, const TensorView& dx, const TensorView& dresidual,
                         const TensorView& dgamma, const TensorView& dbeta, GradMode parameter_mode);
void batch_norm_backward_evaluation(const BatchNormOptions& options, const TensorView& x, const TensorView& y,
                                    const TensorView& dy, const TensorView& gamma,
                                    const TensorView& running_mean, const TensorView& running_var,
                                    const TensorView& dx, const TensorView& dresidual,
                                    const TensorView& dgamma, const TensorView& dbeta,
                                    GradMode parameter_mode);

void relu_forward(const TensorView& x, const TensorView& y);
void relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx);

void max_pool_forward(const PoolShape& shape, const TensorView& x, const TensorView& y,
                      const TensorView& index);
void max_pool_backward(const PoolShape& shape, const TensorView& dy, const TensorView& index,
                       const TensorView& dx);
void global_average_pool_forward(const TensorView& x, const TensorView& y);
void global_average_pool_backward(const TensorView& dy, const TensorView& dx);

void linear_forward(const TensorView& x, const TensorView& w, const TensorView& bias, const TensorView& y);
void linear_backward_data(const TensorView& dy, const TensorView& w, const TensorView& dx);
void linear_backward_weight(const TensorView& x, const TensorView& dy, const TensorView& dw,
                            const TensorView& dbias, GradMode mode);

void softmax_cross_entropy(const TensorView& logits, const TensorView& labels, float smoothing,
                           const TensorView& gradient_scale, const TensorView& loss,
                           const TensorView& correct, const TensorView& dlogits);

void sgd_step(const SgdOptions& options, const SgdControl& control, const TensorView& w, const TensorView& dw,
              const TensorView& v, const TensorView& working);
void update_loss_scale(const LossScaleOptions& options, const TensorView& overflow, const TensorView& scale,
                       const TensorView& good_steps);

void augment_normalize(const AugmentOptions& options, const TensorView& images, const TensorView& samples,
                       const TensorView& epoch, const TensorView& y);

void cast(const TensorView& x, const TensorView& y);
void non_finite_check(const TensorView& x, const TensorView& flag);
void copy_if(const TensorView& flag, const TensorView& x, const TensorView& y);

void sum_of_squares(const TensorView& x, const TensorView& sum);
void checksum(const TensorView& x, const TensorView& sum);

}  // namespace lockstep::reference
