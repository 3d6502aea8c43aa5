// The CUDA ops of this build: each checks the contract (kernels/backend.h) and launches its kernels on a
// CudaStream. An op with partial results takes a Workspace, which belongs to the stream.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/workspace.h"

namespace lockstep::cuda {

void copy_to_device(Stream& stream, void* dst, const void* host_src, std::int64_t bytes);
void copy_to_host(Stream& stream, void* host_dst, const void* src, std::int64_t bytes);
void copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes);
void fill_zero(Stream& stream, void* dst, std::int64_t bytes);

void batch_norm_forward_training(Stream& stream, Workspace& workspace, const BatchNormOptions& options,
                                 const TensorView& x, const TensorView& gamma, const TensorView& beta,
                                 const TensorView& residual, const TensorView& running_mean,
                                 const TensorView& running_var, const TensorView& saved_mean,
                                 const TensorView& saved_invstd, const TensorView& y);
void batch_norm_forward_evaluation(Stream& stream, const BatchNormOptions& options, const TensorView& x,
                                   const TensorView& gamma, const TensorView& beta,
                                   const TensorView& residual, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& y);
void batch_norm_backward(Stream& stream, Workspace& workspace, const BatchNormOptions& options,
                         const TensorView& x, const TensorView& y, const TensorView& dy,
                         const TensorView& gamma, const TensorView& saved_mean,
                         const TensorView& saved_invstd, const TensorView& dx, const TensorView& dresidual,
                         const TensorView& dgamma, const TensorView& dbeta, GradMode parameter_mode);
void batch_norm_backward_evaluation(Stream& stream, Workspace& workspace, const BatchNormOptions& options,
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

// What a matrix product does not do of a linear layer; the op that multiplies has checked the contract.
// y = product + bias, rounded once. product f32, shape of y; where y is f32, y may be product.
void linear_bias_forward(Stream& stream, const TensorView& product, const TensorView& bias,
                         const TensorView& y);
// dbias = column sums of dy.
void linear_bias_backward(Stream& stream, const TensorView& dy, const TensorView& dbias, GradMode mode);

// A label that is no class makes the loss NaN.
void softmax_cross_entropy(Stream& stream, Workspace& workspace, const TensorView& logits,
                           const TensorView& labels, float smoothing, const TensorView& loss,
                           const TensorView& correct, const TensorView& dlogits);

void sgd_step(Stream& stream, const SgdOptions& options, const TensorView& w, const TensorView& dw,
              const TensorView& v, const TensorView& working);

void augment_normalize(Stream& stream, const AugmentOptions& options, const TensorView& images,
                       const TensorView& samples, const TensorView& y);

void cast(Stream& stream, const TensorView& x, const TensorView& y);
void non_finite_check(Stream& stream, const TensorView& x, const TensorView& flag);

}  // namespace lockstep::cuda
