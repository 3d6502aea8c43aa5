// Every op: check the contract, then run it, at once where the stream is inline. A task for a worker stream
// takes copies of its arguments, because it runs after the call has returned.
#include "kernels/cpu/cpu_backend.h"

#include <cstring>

#include "kernels/contracts.h"
#include "kernels/cpu/ops.h"

namespace lockstep {
namespace {

// An inline stream is not asked, which saves wrapping (and allocating) a task for each op.
template <class Task>
void enqueue(Stream& stream, const Task& task) {
  if (dynamic_cast<InlineStream*>(&stream) != nullptr) return task();
  stream.submit(task);
}

}  // namespace

CpuBackend::CpuBackend(int threads) : machine_(threads) {
  omp_set_num_threads(threads);
}

std::unique_ptr<Stream> CpuBackend::make_compute_stream() {
  return std::make_unique<InlineStream>();
}

void CpuBackend::copy_to_device(Stream& stream, void* dst, const void* host_src, std::int64_t bytes) {
  contract::memory("copy_to_device", dst, host_src, bytes);
  enqueue(stream, [=] {
    if (bytes > 0) std::memcpy(dst, host_src, static_cast<std::size_t>(bytes));
  });
}

void CpuBackend::copy_to_host(Stream& stream, void* host_dst, const void* src, std::int64_t bytes) {
  contract::memory("copy_to_host", host_dst, src, bytes);
  enqueue(stream, [=] {
    if (bytes > 0) std::memcpy(host_dst, src, static_cast<std::size_t>(bytes));
  });
}

void CpuBackend::copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes) {
  contract::copy_on_device(dst, src, bytes);
  enqueue(stream, [=] {
    if (bytes > 0) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
  });
}

void CpuBackend::fill_zero(Stream& stream, void* dst, std::int64_t bytes) {
  contract::memory("fill_zero", dst, dst, bytes);
  enqueue(stream, [=] {
    if (bytes > 0) std::memset(dst, 0, static_cast<std::size_t>(bytes));
  });
}

void CpuBackend::conv2d_forward(Stream& stream, const ConvShape& shape, const TensorView& x,
                                const TensorView& w, const TensorView& y) {
  contract::conv2d_forward(shape, x, w, y);
  enqueue(stream, [=, this] { cpu::conv2d_forward(machine_, shape, x, w, y); });
}

void CpuBackend::conv2d_backward_data(Stream& stream, const ConvShape& shape, const TensorView& dy,
                                      const TensorView& w, const TensorView& dx, GradMode mode) {
  contract::conv2d_backward_data(shape, dy, w, dx);
  enqueue(stream, [=, this] { cpu::conv2d_backward_data(machine_, shape, dy, w, dx, mode); });
}

void CpuBackend::conv2d_backward_weight(Stream& stream, const ConvShape& shape, const TensorView& x,
                                        const TensorView& dy, const TensorView& dw, GradMode mode) {
  contract::conv2d_backward_weight(shape, x, dy, dw);
  enqueue(stream, [=, this] { cpu::conv2d_backward_weight(machine_, shape, x, dy, dw, mode); });
}

void CpuBackend::batch_norm_forward_training(Stream& stream, const BatchNormOptions& options,
                                             const TensorView& x, const TensorView& gamma,
                                             const TensorView& beta, const TensorView& residual,
                                             const TensorView& running_mean, const TensorView& running_var,
                                             const TensorView& saved_mean, const TensorView& saved_invstd,
                                             const TensorView& y) {
  contract::batch_norm_forward_training(x, gamma, beta, residual, running_mean, running_var, saved_mean,
                                        saved_invstd, y);
  enqueue(stream, [=, this] {
    cpu::batch_norm_forward_training(machine_, options, x, gamma, beta, residual, running_mean, running_var,
                                     saved_mean, saved_invstd, y);
  });
}

void CpuBackend::batch_norm_forward_evaluation(Stream& stream, const BatchNormOptions& options,
                                               const TensorView& x, const TensorView& gamma,
                                               const TensorView& beta, const TensorView& residual,
                                               const TensorView& running_mean, const TensorView& running_var,
                                               const TensorView& y) {
  contract::batch_norm_forward_evaluation(x, gamma, beta, residual, running_mean, running_var, y);
  enqueue(stream, [=, this] {
    cpu::batch_norm_forward_evaluation(machine_, options, x, gamma, beta, residual, running_mean, running_var,
                                       y);
  });
}

void CpuBackend::batch_norm_backward(Stream& stream, const BatchNormOptions& options, const TensorView& x,
                                     const TensorView& y, const TensorView& dy, const TensorView& gamma,
                                     const TensorView& saved_mean, const TensorView& saved_invstd,
                                     const TensorView& dx, const TensorView& dresidual,
                                     const TensorView& dgamma, const TensorView& dbeta,
                                     GradMode parameter_mode) {
  contract::batch_norm_backward(options, x, y, dy, gamma, saved_mean, saved_invstd, dx, dresidual, dgamma,
                                dbeta);
  enqueue(stream, [=, this] {
    cpu::batch_norm_backward(machine_, options, x, y, dy, gamma, saved_mean, saved_invstd, dx, dresidual,
                             dgamma, dbeta, parameter_mode);
  });
}

void CpuBackend::batch_norm_backward_evaluation(Stream& stream, const BatchNormOptions& options,
                                                const TensorView& x, const TensorView& y,
                                                const TensorView& dy, const TensorView& gamma,
                                                const TensorView& running_mean, const TensorView& running_var,
                                                const TensorView& dx, const TensorView& dresidual,
                                                const TensorView& dgamma, const TensorView& dbeta,
                                                GradMode parameter_mode) {
  contract::batch_norm_backward_evaluation(options, x, y, dy, gamma, running_mean, running_var, dx, dresidual,
                                           dgamma, dbeta);
  enqueue(stream, [=, this] {
    cpu::batch_norm_backward_evaluation(machine_, options, x, y, dy, gamma, running_mean, running_var, dx,
                                        dresidual, dgamma, dbeta, parameter_mode);
  });
}

void CpuBackend::relu_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  contract::relu_forward(x, y);
  enqueue(stream, [=, this] { cpu::relu_forward(machine_, x, y); });
}

void CpuBackend::relu_backward(Stream& stream, const TensorView& y, const TensorView& dy,
                               const TensorView& dx) {
  contract::relu_backward(y, dy, dx);
  enqueue(stream, [=, this] { cpu::relu_backward(machine_, y, dy, dx); });
}

void CpuBackend::max_pool_forward(Stream& stream, const PoolShape& shape, const TensorView& x,
                                  const TensorView& y, const TensorView& index) {
  contract::max_pool_forward(shape, x, y, index);
  enqueue(stream, [=, this] { cpu::max_pool_forward(machine_, shape, x, y, index); });
}

void CpuBackend::max_pool_backward(Stream& stream, const PoolShape& shape, const TensorView& dy,
                                   const TensorView& index, const TensorView& dx) {
  contract::max_pool_backward(shape, dy, index, dx);
  enqueue(stream, [=, this] { cpu::max_pool_backward(machine_, shape, dy, index, dx); });
}

void CpuBackend::global_average_pool_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  contract::global_average_pool_forward(x, y);
  enqueue(stream, [=, this] { cpu::global_average_pool_forward(machine_, x, y); });
}

void CpuBackend::global_average_pool_backward(Stream& stream, const TensorView& dy, const TensorView& dx) {
  contract::global_average_pool_backward(dy, dx);
  enqueue(stream, [=, this] { cpu::global_average_pool_backward(machine_, dy, dx); });
}

void CpuBackend::linear_forward(Stream& stream, const TensorView& x, const TensorView& w,
                                const TensorView& bias, const TensorView& y) {
  contract::linear_forward(x, w, bias, y);
  enqueue(stream, [=, this] { cpu::linear_forward(machine_, x, w, bias, y); });
}

void CpuBackend::linear_backward_data(Stream& stream, const TensorView& dy, const TensorView& w,
                                      const TensorView& dx) {
  contract::linear_backward_data(dy, w, dx);
  enqueue(stream, [=, this] { cpu::linear_backward_data(machine_, dy, w, dx); });
}

void CpuBackend::linear_backward_weight(Stream& stream, const TensorView& x, const TensorView& dy,
                                        const TensorView& dw, const TensorView& dbias, GradMode mode) {
  contract::linear_backward_weight(x, dy, dw, dbias);
  enqueue(stream, [=, this] { cpu::linear_backward_weight(machine_, x, dy, dw, dbias, mode); });
}

void CpuBackend::softmax_cross_entropy(Stream& stream, const TensorView& logits, const TensorView& labels,
                                       float smoothing, const TensorView& gradient_scale,
                                       const TensorView& loss, const TensorView& correct,
                                       const TensorView& dlogits) {
  contract::softmax_cross_entropy(logits, labels, smoothing, gradient_scale, loss, correct, dlogits);
  enqueue(stream, [=, this] {
    cpu::softmax_cross_entropy(machine_, logits, labels, smoothing, gradient_scale, loss, correct, dlogits);
  });
}

void CpuBackend::sgd_step(Stream& stream, const SgdOptions& options, const SgdControl& control,
                          const TensorView& w, const TensorView& dw, const TensorView& v,
                          const TensorView& working) {
  contract::sgd_step(control, w, dw, v, working);
  enqueue(stream, [=, this] { cpu::sgd_step(machine_, options, control, w, dw, v, working); });
}

void CpuBackend::update_loss_scale(Stream& stream, const LossScaleOptions& options,
                                   const TensorView& overflow, const TensorView& scale,
                                   const TensorView& good_steps) {
  contract::update_loss_scale(overflow, scale, good_steps);
  enqueue(stream, [=, this] { cpu::update_loss_scale(machine_, options, overflow, scale, good_steps); });
}

void CpuBackend::augment_normalize(Stream& stream, const AugmentOptions& options, const TensorView& images,
                                   const TensorView& samples, const TensorView& epoch, const TensorView& y) {
  contract::augment_normalize(options, images, samples, epoch, y);
  enqueue(stream, [=, this] { cpu::augment_normalize(machine_, options, images, samples, epoch, y); });
}

void CpuBackend::cast(Stream& stream, const TensorView& x, const TensorView& y) {
  contract::cast(x, y);
  enqueue(stream, [=, this] { cpu::cast(machine_, x, y); });
}

void CpuBackend::non_finite_check(Stream& stream, const TensorView& x, const TensorView& flag) {
  contract::non_finite_check(x, flag);
  enqueue(stream, [=, this] { cpu::non_finite_check(machine_, x, flag); });
}

void CpuBackend::copy_if(Stream& stream, const TensorView& flag, const TensorView& x, const TensorView& y) {
  contract::copy_if(flag, x, y);
  enqueue(stream, [=, this] { cpu::copy_if(machine_, flag, x, y); });
}

void CpuBackend::sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum) {
  contract::sum_of_squares(x, sum);
  enqueue(stream, [=, this] { cpu::sum_of_squares(machine_, x, sum); });
}

void CpuBackend::checksum(Stream& stream, const TensorView& x, const TensorView& sum) {
  contract::checksum(x, sum);
  enqueue(stream, [=, this] { cpu::checksum(machine_, x, sum); });
}

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  LOCKSTEP_CHECK(threads >= 1, "the cpu backend needs at least one thread, not {}", threads);
  return std::make_unique<CpuBackend>(threads);
}

std::string cpu_backend_libraries() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

bool has_cpu_backend() {
  return true;
}

}  // namespace lockstep
