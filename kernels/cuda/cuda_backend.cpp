// Every op of the catalogue on one device. Asking for a device that is not there is an error, never a silent
// change to another.
#include "kernels/cuda/cuda_backend.h"

#include <cstdio>
#include <string>

#include "core/cuda_check.h"
#include "core/cuda_identity.h"
#include "core/cuda_stream.h"
#include "core/error.h"
#include "kernels/cuda/ops.h"

namespace lockstep {
namespace {

int made_current(int device) {
  CUDA_CHECK(cudaSetDevice(device));
  return device;
}

void warn(const std::string& message) {
  fmt::print(stderr, "warning: {}\n", message);
}

}  // namespace

CudaBackend::CudaBackend(const Device& device)
    : device_(made_current(device.index)), allocator_(device.index), machine_(device, warn) {}

MemoryUse CudaBackend::memory_use() const {
  std::size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {static_cast<std::int64_t>(total - free), static_cast<std::int64_t>(total)};
}

std::unique_ptr<Stream> CudaBackend::make_compute_stream() {
  return std::make_unique<CudaStream>(device_);
}

void CudaBackend::copy_to_device(Stream& stream, void* dst, const void* host_src, std::int64_t bytes) {
  cuda::copy_to_device(stream, dst, host_src, bytes);
}

void CudaBackend::copy_to_host(Stream& stream, void* host_dst, const void* src, std::int64_t bytes) {
  cuda::copy_to_host(stream, host_dst, src, bytes);
}

void CudaBackend::copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes) {
  cuda::copy_on_device(stream, dst, src, bytes);
}

void CudaBackend::fill_zero(Stream& stream, void* dst, std::int64_t bytes) {
  cuda::fill_zero(stream, dst, bytes);
}

void CudaBackend::conv2d_forward(Stream& stream, const ConvShape& shape, const TensorView& x,
                                 const TensorView& w, const TensorView& y) {
  machine_.convolutions.conv2d_forward(stream, shape, x, w, y);
}

void CudaBackend::conv2d_backward_data(Stream& stream, const ConvShape& shape, const TensorView& dy,
                                       const TensorView& w, const TensorView& dx, GradMode mode) {
  machine_.convolutions.conv2d_backward_data(stream, shape, dy, w, dx, mode);
}

void CudaBackend::conv2d_backward_weight(Stream& stream, const ConvShape& shape, const TensorView& x,
                                         const TensorView& dy, const TensorView& dw, GradMode mode) {
  machine_.convolutions.conv2d_backward_weight(stream, shape, x, dy, dw, mode);
}

void CudaBackend::batch_norm_forward_training(Stream& stream, const BatchNormOptions& options,
                                              const TensorView& x, const TensorView& gamma,
                                              const TensorView& beta, const TensorView& residual,
                                              const TensorView& running_mean, const TensorView& running_var,
                                              const TensorView& saved_mean, const TensorView& saved_invstd,
                                              const TensorView& y) {
  cuda::batch_norm_forward_training(machine_, stream, options, x, gamma, beta, residual, running_mean,
                                    running_var, saved_mean, saved_invstd, y);
}

void CudaBackend::batch_norm_forward_evaluation(Stream& stream, const BatchNormOptions& options,
                                                const TensorView& x, const TensorView& gamma,
                                                const TensorView& beta, const TensorView& residual,
                                                const TensorView& running_mean, const TensorView& running_var,
                                                const TensorView& y) {
  cuda::batch_norm_forward_evaluation(stream, options, x, gamma, beta, residual, running_mean, running_var,
                                      y);
}

void CudaBackend::batch_norm_backward(Stream& stream, const BatchNormOptions& options, const TensorView& x,
                                      const TensorView& y, const TensorView& dy, const TensorView& gamma,
                                      const TensorView& saved_mean, const TensorView& saved_invstd,
                                      const TensorView& dx, const TensorView& dresidual,
                                      const TensorView& dgamma, const TensorView& dbeta,
                                      GradMode parameter_mode) {
  cuda::batch_norm_backward(machine_, stream, options, x, y, dy, gamma, saved_mean, saved_invstd, dx,
                            dresidual, dgamma, dbeta, parameter_mode);
}

void CudaBackend::batch_norm_backward_evaluation(Stream& stream, const BatchNormOptions& options,
                                                 const TensorView& x, const TensorView& y,
                                                 const TensorView& dy, const TensorView& gamma,
                                                 const TensorView& running_mean,
                                                 const TensorView& running_var, const TensorView& dx,
                                                 const TensorView& dresidual, const TensorView& dgamma,
                                                 const TensorView& dbeta, GradMode parameter_mode) {
  cuda::batch_norm_backward_evaluation(machine_, stream, options, x, y, dy, gamma, running_mean, running_var,
                                       dx, dresidual, dgamma, dbeta, parameter_mode);
}

void CudaBackend::relu_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  cuda::relu_forward(stream, x, y);
}

void CudaBackend::relu_backward(Stream& stream, const TensorView& y, const TensorView& dy,
                                const TensorView& dx) {
  cuda::relu_backward(stream, y, dy, dx);
}

void CudaBackend::max_pool_forward(Stream& stream, const PoolShape& shape, const TensorView& x,
                                   const TensorView& y, const TensorView& index) {
  cuda::max_pool_forward(stream, shape, x, y, index);
}

void CudaBackend::max_pool_backward(Stream& stream, const PoolShape& shape, const TensorView& dy,
                                    const TensorView& index, const TensorView& dx) {
  cuda::max_pool_backward(stream, shape, dy, index, dx);
}

void CudaBackend::global_average_pool_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  cuda::global_average_pool_forward(stream, x, y);
}

void CudaBackend::global_average_pool_backward(Stream& stream, const TensorView& dy, const TensorView& dx) {
  cuda::global_average_pool_backward(stream, dy, dx);
}

void CudaBackend::linear_forward(Stream& stream, const TensorView& x, const TensorView& w,
                                 const TensorView& bias, const TensorView& y) {
  cuda::linear_forward(machine_, stream, x, w, bias, y);
}

void CudaBackend::linear_backward_data(Stream& stream, const TensorView& dy, const TensorView& w,
                                       const TensorView& dx) {
  cuda::linear_backward_data(machine_, stream, dy, w, dx);
}

void CudaBackend::linear_backward_weight(Stream& stream, const TensorView& x, const TensorView& dy,
                                         const TensorView& dw, const TensorView& dbias, GradMode mode) {
  cuda::linear_backward_weight(machine_, stream, x, dy, dw, dbias, mode);
}

void CudaBackend::softmax_cross_entropy(Stream& stream, const TensorView& logits, const TensorView& labels,
                                        float smoothing, const TensorView& gradient_scale,
                                        const TensorView& loss, const TensorView& correct,
                                        const TensorView& dlogits) {
  cuda::softmax_cross_entropy(machine_, stream, logits, labels, smoothing, gradient_scale, loss, correct,
                              dlogits);
}

void CudaBackend::sgd_step(Stream& stream, const SgdOptions& options, const SgdControl& control,
                           const TensorView& w, const TensorView& dw, const TensorView& v,
                           const TensorView& working) {
  cuda::sgd_step(stream, options, control, w, dw, v, working);
}

void CudaBackend::update_loss_scale(Stream& stream, const LossScaleOptions& options,
                                    const TensorView& overflow, const TensorView& scale,
                                    const TensorView& good_steps) {
  cuda::update_loss_scale(stream, options, overflow, scale, good_steps);
}

void CudaBackend::augment_normalize(Stream& stream, const AugmentOptions& options, const TensorView& images,
                                    const TensorView& samples, const TensorView& epoch, const TensorView& y) {
  cuda::augment_normalize(stream, options, images, samples, epoch, y);
}

void CudaBackend::cast(Stream& stream, const TensorView& x, const TensorView& y) {
  cuda::cast(stream, x, y);
}

void CudaBackend::non_finite_check(Stream& stream, const TensorView& x, const TensorView& flag) {
  cuda::non_finite_check(stream, x, flag);
}

void CudaBackend::copy_if(Stream& stream, const TensorView& flag, const TensorView& x, const TensorView& y) {
  cuda::copy_if(stream, flag, x, y);
}

void CudaBackend::sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum) {
  cuda::sum_of_squares(machine_, stream, x, sum);
}

void CudaBackend::checksum(Stream& stream, const TensorView& x, const TensorView& sum) {
  cuda::checksum(machine_, stream, x, sum);
}

std::string cuda_device_problem(int index) {
  std::string why;
  const int count = cuda_device_count(&why);
  if (count == 0) return why;
  if (index < 0 || index >= count)
    return fmt::format("there are {} CUDA devices: start at most that many ranks on a host", count);
  const CudaIdentity device = cuda_identity(index);
  const int oldest = cuda::oldest_architecture();
  if (device.architecture >= oldest) return "";
  return fmt::format(
      "the {} has compute capability {}.{} and the kernels of this build need {}.{} or newer: build again "
      "with -DCMAKE_CUDA_ARCHITECTURES={}",
      device.name, device.architecture / 10, device.architecture % 10, oldest / 10, oldest % 10,
      device.architecture);
}

std::unique_ptr<Backend> make_cuda_backend(const Device& device) {
  const std::string problem = cuda_device_problem(device.index);
  if (!problem.empty()) {
    fail(ExitCode::device, "CUDA device {} was asked for, but {}. --device cpu runs without it", device.index,
         problem);
  }
  return std::make_unique<CudaBackend>(device);
}

std::string cuda_backend_libraries() {
  int version = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&version));
  return fmt::format("CUDA runtime {}.{}, cuDNN {}.{}.{}", version / 1000, version % 1000 / 10, CUDNN_MAJOR,
                     CUDNN_MINOR, CUDNN_PATCHLEVEL);
}

}  // namespace lockstep
