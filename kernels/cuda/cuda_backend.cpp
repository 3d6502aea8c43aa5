// What this build offers for --device cuda. Some ops are missing, so there is no backend to hand out: asking
// for one is an error, never a silent change of device.
#include "kernels/cuda/cuda_backend.h"

#include <cstdio>
#include <string>

#include "core/cuda_check.h"
#include "core/cuda_stream.h"
#include "core/error.h"
#include "kernels/cuda/ops.h"

namespace lockstep {
namespace {

[[noreturn]] void missing(const char* op) {
  fail(ExitCode::device, "the CUDA backend of this build has no {}: use --device cpu", op);
}

int made_current(int device) {
  CUDA_CHECK(cudaSetDevice(device));
  return device;
}

void warn(const std::string& message) {
  fmt::print(stderr, "warning: {}\n", message);
}

}  // namespace

CudaBackend::CudaBackend(int device)
    : device_(made_current(device)), allocator_(device), machine_(device, warn) {}

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

void CudaBackend::batch_norm_forward_training(Stream&, const BatchNormOptions&, const TensorView&,
                                              const TensorView&, const TensorView&, const TensorView&,
                                              const TensorView&, const TensorView&, const TensorView&,
                                              const TensorView&, const TensorView&) {
  missing("batch_norm_forward_training");
}

void CudaBackend::batch_norm_forward_evaluation(Stream&, const BatchNormOptions&, const TensorView&,
                                                const TensorView&, const TensorView&, const TensorView&,
                                                const TensorView&, const TensorView&, const TensorView&) {
  missing("batch_norm_forward_evaluation");
}

void CudaBackend::batch_norm_backward(Stream&, const BatchNormOptions&, const TensorView&, const TensorView&,
                                      const TensorView&, const TensorView&, const TensorView&,
                                      const TensorView&, const TensorView&, const TensorView&,
                                      const TensorView&, const TensorView&, GradMode) {
  missing("batch_norm_backward");
}

void CudaBackend::batch_norm_backward_evaluation(Stream&, const BatchNormOptions&, const TensorView&,
                                                 const TensorView&, const TensorView&, const TensorView&,
                                                 const TensorView&, const TensorView&, const TensorView&,
                                                 const TensorView&, const TensorView&, const TensorView&,
                                                 GradMode) {
  missing("batch_norm_backward_evaluation");
}

void CudaBackend::relu_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  cuda::relu_forward(stream, x, y);
}

void CudaBackend::relu_backward(Stream& stream, const TensorView& y, const TensorView& dy,
                                const TensorView& dx) {
  cuda::relu_backward(stream, y, dy, dx);
}

void CudaBackend::max_pool_forward(Stream&, const PoolShape&, const TensorView&, const TensorView&,
                                   const TensorView&) {
  missing("max_pool_forward");
}

void CudaBackend::max_pool_backward(Stream&, const PoolShape&, const TensorView&, const TensorView&,
                                    const TensorView&) {
  missing("max_pool_backward");
}

void CudaBackend::global_average_pool_forward(Stream&, const TensorView&, const TensorView&) {
  missing("global_average_pool_forward");
}

void CudaBackend::global_average_pool_backward(Stream&, const TensorView&, const TensorView&) {
  missing("global_average_pool_backward");
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

void CudaBackend::softmax_cross_entropy(Stream&, const TensorView&, const TensorView&, float,
                                        const TensorView&, const TensorView&, const TensorView&) {
  missing("softmax_cross_entropy");
}

void CudaBackend::sgd_step(Stream& stream, const SgdOptions& options, const TensorView& w,
                           const TensorView& dw, const TensorView& v, const TensorView& working) {
  cuda::sgd_step(stream, options, w, dw, v, working);
}

void CudaBackend::augment_normalize(Stream& stream, const AugmentOptions& options, const TensorView& images,
                                    const TensorView& samples, const TensorView& y) {
  cuda::augment_normalize(stream, options, images, samples, y);
}

void CudaBackend::cast(Stream&, const TensorView&, const TensorView&) {
  missing("cast");
}

void CudaBackend::non_finite_check(Stream&, const TensorView&, const TensorView&) {
  missing("non_finite_check");
}

std::unique_ptr<Backend> make_cuda_backend(int index) {
  std::string why;
  const int count = cuda_device_count(&why);
  if (count == 0) {
    fail(ExitCode::device, "CUDA device {} was asked for, but this machine has none: {}. Use --device cpu",
         index, why);
  }
  if (index < 0 || index >= count) {
    fail(ExitCode::device,
         "CUDA device {} was asked for, but this machine has {}: start at most that many ranks a host", index,
         count);
  }
  fail(ExitCode::device,
       "the CUDA backend of this build has the ops copy_on_device, relu, sgd_step and augment_normalize and "
       "no "
       "others, which is not enough to train: use --device cpu");
}

std::string cuda_backend_libraries() {
  int version = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&version));
  return fmt::format("CUDA runtime {}.{}, cuDNN {}", version / 1000, version % 1000 / 10, cudnnGetVersion());
}

}  // namespace lockstep
