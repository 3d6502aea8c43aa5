// Convolutions by cuDNN: forward, data gradient and weight gradient.
//
// Accumulation into f32 dw and into dx happens in the plan itself (beta = 1), which every engine supports: no
// scratch, no second pass, one rounding. cuDNN has no engine for 16-bit factors and f32 dw, so such a weight
// gradient is a 16-bit tensor in scratch memory first: its f32 sums are rounded once, and a kernel widens
// them into dw or adds them to it.
#pragma once

#include <functional>
#include <string>

#include "kernels/backend.h"
#include "kernels/cuda/convolution_plans.h"
#include "kernels/cuda/workspace.h"

namespace lockstep::cuda {

class Convolutions {
 public:
  using Warn = std::function<void(const std::string&)>;

  // The current device has these properties, and the workspace, which must outlive this, lies on it. `warn`
  // is told of each plan that the device refused.
  Convolutions(DeviceProperties properties, Workspace& workspace, Precision precision, Warn warn);

  // As kernels/backend.h says; contracts are checked. The stream is a CudaStream.
  void conv2d_forward(Stream& stream, const ConvShape& shape, const TensorView& x, const TensorView& w,
                      const TensorView& y);
  void conv2d_backward_data(Stream& stream, const ConvShape& shape, const TensorView& dy, const TensorView& w,
                            const TensorView& dx, GradMode mode);
  void conv2d_backward_weight(Stream& stream, const ConvShape& shape, const TensorView& x,
                              const TensorView& dy, const TensorView& dw, GradMode mode);

 private:
  void run(const char* op, Stream& stream, const Convolution& convolution, void* input, void* weight,
           void* output);

  CudnnHandle handle_;
  ConvolutionPlans plans_;
  Workspace& workspace_;
  Warn warn_;
};

// dw (+)= sums, exactly. count elements; sums holds `type`, a 16-bit one.
void widen_weight_gradient(Stream& stream, DType type, const void* sums, float* dw, std::int64_t count,
                           GradMode mode);

}  // namespace lockstep::cuda
