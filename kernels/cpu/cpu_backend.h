// The embedded default: oneDNN and own vectorised loops on the cores of one process. README.md says what runs
// where.
#pragma once

#include "core/host.h"
#include "kernels/cpu/machine.h"

namespace lockstep {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads);
  const char* name() const override { return "cpu"; }
  Allocator& allocator() override { return allocator_; }
  Allocator& host_allocator() override { return allocator_; }
  MemoryUse memory_use() const override { return {peak_memory(), 0}; }
  std::unique_ptr<Stream> make_compute_stream() override;

  void copy_to_device(Stream& stream, void* dst, const void* host_src, std::int64_t bytes) override;
  void copy_to_host(Stream& stream, void* host_dst, const void* src, std::int64_t bytes) override;
  void copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes) override;
  void fill_zero(Stream& stream, void* dst, std::int64_t bytes) override;

  void conv2d_forward(Stream& stream, const ConvShape& shape, const TensorView& x, const TensorView& w,
                      const TensorView& y) override;
  void conv2d_backward_data(Stream& stream, const ConvShape& shape, const TensorView& dy, const TensorView& w,
                            const TensorView& dx, GradMode mode) override;
  void conv2d_backward_weight(Stream& stream, const ConvShape& shape, const TensorView& x,
                              const TensorView& dy, const TensorView& dw, GradMode mode) override;
  void batch_norm_forward_training(Stream& stream, const BatchNormOptions& options, const TensorView& x,
                                   const TensorView& gamma, const TensorView& beta,
                                   const TensorView& residual, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& saved_mean,
                                   const TensorView& saved_invstd, const TensorView& y) override;
  void batch_norm_forward_evaluation(Stream& stream, const BatchNormOptions& options, const TensorView& x,
                                     const TensorView& gamma, const TensorView& beta,
                                     const TensorView& residual, const TensorView& running_mean,
                                     const TensorView& running_var, const TensorView& y) override;
  void batch_norm_backward(Stream& stream, const BatchNormOptions& options, const TensorView& x,
                           const TensorView& y, const TensorView& dy, const TensorView& gamma,
                           const TensorView& saved_mean, const TensorView& saved_invstd, const TensorView& dx,
                           const TensorView& dresidual, const TensorView& dgamma, const TensorView& dbeta,
                           GradMode parameter_mode) override;
  void batch_norm_backward_evaluation(Stream& stream, const BatchNormOptions& options, const TensorView& x,
                                      const TensorView& y, const TensorView& dy, const TensorView& gamma,
                                      const TensorView& running_mean, const TensorView& running_var,
                                      const TensorView& dx, const TensorView& dresidual,
                                      const TensorView& dgamma, const TensorView& dbeta,
                                      GradMode parameter_mode) override;
  void relu_forward(Stream& stream, const TensorView& x, const TensorView& y) override;
  void relu_backward(Stream& stream, const TensorView& y, const TensorView& dy,
                     const TensorView& dx) override;
  void max_pool_forward(Stream& stream, const PoolShape& shape, const TensorView& x, const TensorView& y,
                        const TensorView& index) override;
  void max_pool_backward(Stream& stream, const PoolShape& shape, const TensorView& dy,
                         const TensorView& index, const TensorView& dx) override;
  void global_average_pool_forward(Stream& stream, const TensorView& x, const TensorView& y) override;
  void global_average_pool_backward(Stream& stream, const TensorView& dy, const TensorView& dx) override;
  void linear_forward(Stream& stream, const TensorView& x, const TensorView& w, const TensorView& bias,
                      const TensorView& y) override;
  void linear_backward_data(Stream& stream, const TensorView& dy, const TensorView& w,
                            const TensorView& dx) override;
  void linear_backward_weight(Stream& stream, const TensorView& x, const TensorView& dy, const TensorView& dw,
                              const TensorView& dbias, GradMode mode) override;
  void softmax_cross_entropy(Stream& stream, const TensorView& logits, const TensorView& labels,
                             float smoothing, const TensorView& gradient_scale, const TensorView& loss,
                             const TensorView& correct, const TensorView& dlogits) override;
  void sgd_step(Stream& stream, const SgdOptions& options, const SgdControl& control, const TensorView& w,
                const TensorView& dw, const TensorView& v, const TensorView& working) override;
  void update_loss_scale(Stream& stream, const LossScaleOptions& options, const TensorView& overflow,
                         const TensorView& scale, const TensorView& good_steps) override;
  void augment_normalize(Stream& stream, const AugmentOptions& options, const TensorView& images,
                         const TensorView& samples, const TensorView& epoch, const TensorView& y) override;
  void cast(Stream& stream, const TensorView& x, const TensorView& y) override;
  void non_finite_check(Stream& stream, const TensorView& x, const TensorView& flag) override;
  void copy_if(Stream& stream, const TensorView& flag, const TensorView& x, const TensorView& y) override;
  void sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum) override;
  void checksum(Stream& stream, const TensorView& x, const TensorView& sum) override;

 private:
  HostAllocator allocator_;
  cpu::Machine machine_;
};

}  // namespace lockstep
