#include "kernels/cuda/convolution.h"

#include <cstdint>
#include <utility>

#include "core/error.h"
#include "kernels/contracts.h"
#include "kernels/cuda/cudnn_check.h"

namespace lockstep::cuda {
namespace {

void* aligned(const char* op, void* data) {
  LOCKSTEP_CHECK(reinterpret_cast<std::uintptr_t>(data) % 16 == 0, "{}: a tensor does not start on 16 bytes",
                 op);
  return data;
}

Descriptor variant_pack(void* input, void* weight, void* output, void* workspace) {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::vector<std::int64_t>{kInput, kWeight, kOutput})
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::vector<void*>{input, weight, output})
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::vector<void*>{workspace});
  return std::move(pack.finalize());
}

}  // namespace

Convolutions::Convolutions(DeviceProperties properties, Workspace& workspace, Precision precision, Warn warn)
    : plans_(std::move(properties), precision), workspace_(workspace), warn_(std::move(warn)) {}

void Convolutions::run(const char* op, Stream& stream, const Convolution& convolution, void* input,
                       void* weight, void* output) {
  ConvolutionPlan& plan = plans_.get(convolution);
  const cudnnHandle_t handle = handle_.on(op, stream);
  for (;;) {
    const std::int64_t bytes = plan.workspace_bytes();
    void* scratch = bytes > 0 ? workspace_.get(Area::plan, bytes) : nullptr;
    const Descriptor pack =
        variant_pack(aligned(op, input), aligned(op, weight), aligned(op, output), scratch);
    const cudnnStatus_t status = cudnnBackendExecute(handle, plan.plan().get(), pack.get());
    if (status == CUDNN_STATUS_SUCCESS) return;
    // A refused plan has enqueued nothing. The next one stays the plan, so each is tried, and told, once.
    const std::string refused = fmt::format("{} ({})", describe(convolution), cudnnGetErrorString(status));
    if (!plan.advance(plans_.properties())) CUDNN_CHECK(status);
    warn_("cuDNN: the device refused a plan, the next one is tried: " + refused);
  }
}

void Convolutions::conv2d_forward(Stream& stream, const ConvShape& shape, const TensorView& x,
                                  const TensorView& w, const TensorView& y) {
  contract::conv2d_forward(shape, x, w, y);
  run("conv2d_forward", stream, {Direction::forward, shape, x.dtype, false}, x.data, w.data, y.data);
}

void Convolutions::conv2d_backward_data(Stream& stream, const ConvShape& shape, const TensorView& dy,
                                        const TensorView& w, const TensorView& dx, GradMode mode) {
  contract::conv2d_backward_data(shape, dy, w, dx);
  run("conv2d_backward_data", stream,
      {Direction::backward_data, shape, dy.dtype, mode == GradMode::accumulate}, dx.data, w.data, dy.data);
}

void Convolutions::conv2d_backward_weight(Stream& stream, const ConvShape& shape, const TensorView& x,
                                          const TensorView& dy, const TensorView& dw, GradMode mode) {
  contract::conv2d_backward_weight(shape, x, dy, dw);
  const char* op = "conv2d_backward_weight";
  if (x.dtype == DType::f32) {
    return run(op, stream, {Direction::backward_weight, shape, x.dtype, mode == GradMode::accumulate}, x.data,
               dw.data, dy.data);
  }
  void* sums = workspace_.get(Area::product, dw.numel() * size_of(x.dtype));
  run(op, stream, {Direction::backward_weight, shape, x.dtype, false}, x.data, sums, dy.data);
  widen_weight_gradient(stream, x.dtype, sums, dw.as<float>(), dw.numel(), mode);
}

}  // namespace lockstep::cuda
