// Every op: check the contract, then enqueue the loops. Arguments are copied into the task, because a worker
// stream runs it after the call has returned.
#include "kernels/reference/reference_backend.h"

#include <cstring>

#include "kernels/contracts.h"
#include "kernels/reference/ops.h"

namespace lockstep {

std::unique_ptr<Stream> ReferenceBackend::make_compute_stream() {
  return std::make_unique<InlineStream>();
}

void ReferenceBackend::copy_to_device(Stream& stream, void* dst, const void* host_src, std::int64_t bytes) {
  contract::memory("copy_to_device", dst, host_src, bytes);
  stream.submit([=] {
    if (bytes > 0) std::memcpy(dst, host_src, static_cast<std::size_t>(bytes));
  });
}

void ReferenceBackend::copy_to_host(Stream& stream, void* host_dst, const void* src, std::int64_t bytes) {
  contract::memory("copy_to_host", host_dst, src, bytes);
  stream.submit([=] {
    if (bytes > 0) std::memcpy(host_dst, src, static_cast<std::size_t>(bytes));
  });
}

void ReferenceBackend::copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes) {
  contract::copy_on_device(dst, src, bytes);
  stream.submit([=] {
    if (bytes > 0) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
  });
}

void ReferenceBackend::fill_zero(Stream& stream, void* dst, std::int64_t bytes) {
  contract::memory("fill_zero", dst, dst, bytes);
  stream.submit([=] {
    if (bytes > 0) std::memset(dst, 0, static_cast<std::size_t>(bytes));
  });
}

void ReferenceBackend::conv2d_forward(Stream& stream, const ConvShape& shape, const TensorView& x,
                                      const TensorView& w, const TensorView& y) {
  contract::conv2d_forward(shape, x, w, y);
  stream.submit([=] { reference::conv2d_forward(shape, x, w, y); });
}

void ReferenceBackend::conv2d_backward_data(Stream& stream, const ConvShape& shape, const TensorView& dy,
                                            const TensorView& w, const TensorView& dx, GradMode mode) {
  contract::conv2d_backward_data(shape, dy, w, dx);
  stream.submit([=] { reference::conv2d_backward_data(shape, dy, w, dx, mode); });
}

void ReferenceBackend::conv2d_backward_weight(Stream& stream, const ConvShape& shape, const TensorView& x,
                                              const TensorView& dy, const TensorView& dw, GradMode mode) {
  contract::conv2d_backward_weight(shape, x, dy, dw);
  stream.submit([=] { reference::conv2d_backward_weight(shape, x, dy, dw, mode); });
}

void ReferenceBackend::batch_norm_forward_training(Stream& stream, const BatchNormOptions& options,
                                                   const TensorView& x, const TensorView& gamma,
                                                   const TensorView& beta, const TensorView& residual,
                                                   const TensorView& running_mean,
                                                   const TensorView& running_var,
                                                   const TensorView& saved_mean,
                                                   const TensorView& saved_invstd, const TensorView& y) {
  contract::batch_norm_forward_training(x, gamma, beta, residual, running_mean, running_var, saved_mean,
                                        saved_invstd, y);
  stream.submit([=] {
    reference::batch_norm_forward_training(options, x, gamma, beta, residual, running_mean, running_var,
                                           saved_mean, saved_invstd, y);
  });
}

void ReferenceBackend::batch_norm_forward_evaluation(Stream& stream, const BatchNormOptions& options,
                                                     const TensorView& x, const TensorView& gamma,
                                                     const TensorView& beta, const TensorView& residual,
                                                     const TensorView& running_mean,
                                                     const TensorView& running_var, const TensorView& y) {
  contract::batch_norm_forward_evaluation(x, gamma, beta, residual, running_mean, running_var, y);
  stream.submit([=] {
    reference::batch_norm_forward_evaluation(options, x, gamma, beta, residual, running_mean, running_var, y);
  });
}

void ReferenceBackend::batch_norm_backward(Stream& stream, const BatchNormOptions& options,
                                           const TensorView& x, const TensorView& y, const TensorView& dy,
                                           const TensorView& gamma, const TensorView& saved_mean,
                                           const TensorView& saved_invstd, const TensorView& dx,
                                           const TensorView& dresidual, const TensorView& dgamma,
                                           const TensorView& dbeta, GradMode parameter_mode) {
  contract::batch_norm_backward(options, x, y, dy, gamma, saved_mean, saved_invstd, dx, dresidual, dgamma,
                                dbeta);
  stream.submit([=] {
    reference::batch_norm_backward(options, x, y, dy, gamma, saved_mean, saved_invstd, dx, dresidual, dgamma,
                                   dbeta, parameter_mode);
  });
}

void ReferenceBackend::batch_norm_backward_evaluation(Stream& stream, const BatchNormOptions& options,
                                                      const TensorView& x, const TensorView& y,
                                                      const TensorView& dy, const TensorView& gamma,
                                                      const TensorView& running_mean,
                                                      const TensorView& running_var, const TensorView& dx,
                                                      const TensorView& dresidual, const TensorView& dgamma,
                                                      const TensorView& dbeta, GradMode parameter_mode) {
  contract::batch_norm_backward_evaluation(options, x, y, dy, gamma, running_mean, running_var, dx, dresidual,
                                           dgamma, dbeta);
  stream.submit([=] {
    reference::batch_norm_backward_evaluation(options, x, y, dy, gamma, running_mean, running_var, dx,
                                              dresidual, dgamma, dbeta, parameter_mode);
  });
}

void ReferenceBackend::relu_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  contract::relu_forward(x, y);
  stream.submit([=] { reference::relu_forward(x, y); });
}

void ReferenceBackend::relu_backward(Stream& stream, const TensorView& y, const TensorView& dy,
                                     const TensorView& dx) {
  contract::relu_backward(y, dy, dx);
  stream.submit([=] { reference::relu_backward(y, dy, dx); });
}

void ReferenceBackend::max_pool_forward(Stream& stream, const PoolShape& shape, const TensorView& x,
                                        const TensorView& y, const TensorView& index) {
  contract::max_pool_forward(shape, x, y, index);
  stream.submit([=] { reference::max_pool_forward(shape, x, y, index); });
}

void ReferenceBackend::max_pool_backward(Stream& stream, const PoolShape& shape, const TensorView& dy,
                                         const TensorView& index, const TensorView& dx) {
  contract::max_pool_backward(shape, dy, index, dx);
  stream.submit([=] { reference::max_pool_backward(shape, dy, index, dx); });
}

void ReferenceBackend::global_average_pool_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  contract::global_average_pool_forward(x, y);
  stream.submit([=] { reference::global_average_pool_forward(x, y); });
}

void ReferenceBackend::global_average_pool_backward(Stream& stream, const TensorView& dy,
                                                    const TensorView& dx) {
  contract::global_average_pool_backward(dy, dx);
  stream.submit([=] { reference::global_average_pool_backward(dy, dx); });
}

void ReferenceBackend::linear_forward(Stream& stream, const TensorView& x, const TensorView& w,
                                      const TensorView& bias, const TensorView& y) {
  contract::linear_forward(x, w, bias, y);
  stream.submit([=] { reference::linear_forward(x, w, bias, y); });
}

void ReferenceBackend::linear_backward_data(Stream& stream, const TensorView& dy, const TensorView& w,
                                            const TensorView& dx) {
  contract::linear_backward_data(dy, w, dx);
  stream.submit([=] { reference::linear_backward_data(dy, w, dx); });
}

void ReferenceBackend::linear_backward_weight(Stream& stream, const TensorView& x, const TensorView& dy,
                                              const TensorView& dw, const TensorView& dbias, GradMode mode) {
  contract::linear_backward_weight(x, dy, dw, dbias);
  stream.submit([=] { reference::linear_backward_weight(x, dy, dw, dbias, mode); });
}

void ReferenceBackend::softmax_cross_entropy(Stream& stream, const TensorView& logits,
                                             const TensorView& labels, float smoothing,
                                             const TensorView& gradient_scale, const TensorView& loss,
                                             const TensorView& correct, const TensorView& dlogits) {
  contract::softmax_cross_entropy(logits, labels, smoothing, gradient_scale, loss, correct, dlogits);
  stream.submit([=] {
    reference::softmax_cross_entropy(logits, labels, smoothing, gradient_scale, loss, correct, dlogits);
  });
}

void ReferenceBackend::sgd_step(Stream& stream, const SgdOptions& options, const SgdControl& control,
                                const TensorView& w, const TensorView& dw, const TensorView& v,
                                const TensorView& working) {
  contract::sgd_step(control, w, dw, v, working);
  stream.submit([=] { reference::sgd_step(options, control, w, dw, v, working); });
}

void ReferenceBackend::update_loss_scale(Stream& stream, const LossScaleOptions& options,
                                         const TensorView& overflow, const TensorView& scale,
                                         const TensorView& good_steps) {
  contract::update_loss_scale(overflow, scale, good_steps);
  stream.submit([=] { reference::update_loss_scale(options, overflow, scale, good_steps); });
}

void ReferenceBackend::augment_normalize(Stream& stream, const AugmentOptions& options,
                                         const TensorView& images, const TensorView& samples,
                                         const TensorView& epoch, const TensorView& y) {
  contract::augment_normalize(options, images, samples, epoch, y);
  stream.submit([=] { reference::augment_normalize(options, images, samples, epoch, y); });
}

void ReferenceBackend::cast(Stream& stream, const TensorView& x, const TensorView& y) {
  contract::cast(x, y);
  stream.submit([=] { reference::cast(x, y); });
}

void ReferenceBackend::non_finite_check(Stream& stream, const TensorView& x, const TensorView& flag) {
  contract::non_finite_check(x, flag);
  stream.submit([=] { reference::non_finite_check(x, flag); });
}

void ReferenceBackend::copy_if(Stream& stream, const TensorView& flag, const TensorView& x,
                               const TensorView& y) {
  contract::copy_if(flag, x, y);
  stream.submit([=] { reference::copy_if(flag, x, y); });
}

void ReferenceBackend::sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum) {
  contract::sum_of_squares(x, sum);
  stream.submit([=] { reference::sum_of_squares(x, sum); });
}

void ReferenceBackend::checksum(Stream& stream, const TensorView& x, const TensorView& sum) {
  contract::checksum(x, sum);
  stream.submit([=] { reference::checksum(x, sum); });
}

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace lockstep
