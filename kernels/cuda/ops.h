// The CUDA ops of this build: each checks the contract (kernels/backend.h) and launches its kernel on a
// CudaStream. Those that need scratch memory or a library's handle take the device's Machine.
#pragma once

#include "kernels/backend.h"

namespace lockstep::cuda {

struct Machine;

void copy_to_device(Stream& stream, void* dst, const void* host_src, std::int64_t bytes);
void copy_to_host(Stream& stream, void* host_dst, const void* src, std::int64_t bytes);
void copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes);
void fill_zero(Stream& stream, void* dst, std::int64_t bytes);

void relu_forward(Stream& stream, const TensorView& x, const TensorView& y);
void relu_backward(Stream& stream, const TensorView& y, const TensorView& dy, const TensorView& dx);

void linear_forward(Machine& machine, Stream& stream, const TensorView& x, const TensorView& w,
                    const TensorView& bias, const TensorView& y);
void linear_backward_data(Machine& machine, Stream& stream, const TensorView& dy, const TensorView& w,
                          const TensorView& dx);
void linear_backward_weight(Machine& machine, Stream& stream, const TensorView& x, const TensorView& dy,
                            const TensorView& dw, const TensorView& dbias, GradMode mode);

void sgd_step(Stream& stream, const SgdOptions& options, const TensorView& w, const TensorView& dw,
              const TensorView& v, const TensorView& working);

void augment_normalize(Stream& stream, const AugmentOptions& options, const TensorView& images,
                       const TensorView& samples, const TensorView& y);

}  // namespace lockstep::cuda
