// Convolutions by cuDNN: forward, data gradient and weight gradient.
//
// Accumulation into f32 dw and into dx happens in the plan itself (beta = 1), which every engine supports: no
// scratch, no second pass, one rounding. cuDNN has no engine for 16-bit factors and f32 dw, so such a weight
// gradient is a 16-bit tensor in scratch memory first: its f32 sums are rounded once, and a kernel widens
// them into dw or adds them to it.
//
// Engines want channels in whole 16-byte vectors; a stem's images have three. With autotune the forward and
// the weight gradient of such a convolution are tried with zero channels added in scratch memory, too, the
// copies' time included. The result is the same sum, with zeros in it.
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
  // is told of each plan that the device refused. autotune: a convolution's first call runs its candidates
  // and keeps the fastest; which one that is may differ from run to run, and so may the last bits.
  Convolutions(DeviceProperties properties, Workspace& workspace, Precision precision, bool autotune,
               Warn warn);

  // As kernels/backend.h says; contracts are checked. The stream is a CudaStream.
  void conv2d_forward(Stream& stream, const ConvShape& shape, const TensorView& x, const TensorView& w,
                      const TensorView& y);
  void conv2d_backward_data(Stream& stream, const ConvShape& shape, const TensorView& dy, const TensorView& w,
                            const TensorView& dx, GradMode mode);
  void conv2d_backward_weight(Stream& stream, const ConvShape& shape, const TensorView& x,
                              const TensorView& dy, const TensorView& dw, GradMode mode);

  ConvolutionPlans& plans() { return plans_; }

 private:
  // The tensors of a convolution, by TensorId.
  struct Pointers {
    void *input, *weight, *output;
  };
  struct Call {
    const char* op;
    Stream& stream;
    Convolution convolution;  // accumulate: the plan adds
    Pointers pointers;        // the weight gradient is f32
    GradMode mode;
  };
  void run(const Call& call);
  // The plan, which may be one with padded channels, and the kernels that it needs before and after.
  cudnnStatus_t execute(const Call& call, const ConvolutionPlan& plan);
  void tune(Call call, ConvolutionPlan& plan);
  float settle_on_fastest(const Call& call, ConvolutionPlan& plan);  // milliseconds of that one

  CudnnHandle handle_;
  ConvolutionPlans plans_;
  Workspace& workspace_;
  bool autotune_;
  Warn warn_;
};

// y = x with channels of zeros added: x is [rows, channels], y [rows, padded], whole vectors of 16 bytes.
void pad_channels(Stream& stream, DType type, const void* x, void* y, std::int64_t rows,
                  std::int64_t channels, std::int64_t padded);

// dw (+)= sums, exactly: dw is [rows, channels], sums holds [rows, padded] of `type`.
void widen_weight_gradient(Stream& stream, DType type, const void* sums, float* dw, std::int64_t rows,
                           std::int64_t channels, std::int64_t padded, GradMode mode);

}  // namespace lockstep::cuda
