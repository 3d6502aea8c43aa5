#include "kernels/cuda/convolution.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "core/cuda_check.h"
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

template <class Pointers>
void*& result_of(Direction direction, Pointers& pointers) {
  switch (direction) {
    case Direction::forward:
      return pointers.output;
    case Direction::backward_data:
      return pointers.input;
    case Direction::backward_weight:
      break;
  }
  return pointers.weight;
}

std::int64_t bytes_of_result(const Convolution& convolution) {
  const ConvShape& s = convolution.shape;
  const std::int64_t input = s.n * s.h * s.w * s.c_in, output = s.n * s.out_h() * s.out_w() * s.c_out,
                     weight = s.c_out * s.kernel * s.kernel * s.c_in;
  const std::int64_t count = convolution.direction == Direction::forward         ? output
                             : convolution.direction == Direction::backward_data ? input
                                                                                 : weight;
  return count * size_of(convolution.type);
}

// The device's time for work on a stream.
class Stopwatch {
 public:
  explicit Stopwatch(Stream& stream) : stream_(static_cast<cudaStream_t>(stream.native_handle())) {
    CUDA_CHECK(cudaEventCreateWithFlags(&begin_, cudaEventDefault));
    const cudaError_t status = cudaEventCreateWithFlags(&end_, cudaEventDefault);
    if (status != cudaSuccess) cudaEventDestroy(begin_);
    CUDA_CHECK(status);
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  template <class Work>
  float time(const Work& work) const {
    float milliseconds = 0;
    CUDA_CHECK(cudaEventRecord(begin_, stream_));
    work();
    CUDA_CHECK(cudaEventRecord(end_, stream_));
    CUDA_CHECK(cudaEventSynchronize(end_));
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return milliseconds;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

Convolutions::Convolutions(DeviceProperties properties, Workspace& workspace, Precision precision,
                           bool autotune, Warn warn)
    : plans_(std::move(properties), precision),
      workspace_(workspace),
      autotune_(autotune),
      warn_(std::move(warn)) {}

cudnnStatus_t Convolutions::execute(const char* op, Stream& stream, const ConvolutionPlan& plan,
                                    const Pointers& pointers) {
  const std::int64_t bytes = plan.workspace_bytes();
  void* scratch = bytes > 0 ? workspace_.get(Area::plan, bytes) : nullptr;
  const Descriptor pack = variant_pack(aligned(op, pointers.input), aligned(op, pointers.weight),
                                       aligned(op, pointers.output), scratch);
  return cudnnBackendExecute(handle_.on(op, stream), plan.plan().get(), pack.get());
}

void Convolutions::run(const char* op, Stream& stream, const Convolution& convolution,
                       const Pointers& pointers) {
  ConvolutionPlan& plan = plans_.get(convolution);
  if (autotune_ && !plan.settled()) tune(op, stream, convolution, plan, pointers);
  for (;;) {
    const cudnnStatus_t status = execute(op, stream, plan, pointers);
    if (status == CUDNN_STATUS_SUCCESS) return;
    // A refused plan has enqueued nothing. The next one stays the plan, so each is tried, and told, once.
    const std::string refused = fmt::format("{} ({})", describe(convolution), cudnnGetErrorString(status));
    if (!plan.advance(plans_.properties())) CUDNN_CHECK(status);
    warn_("cuDNN: the device refused a plan, the next one is tried: " + refused);
  }
}

// The candidates write to a tensor of their own: some add to what is there. One that the device refuses
// counts as slow.
void Convolutions::tune(const char* op, Stream& stream, const Convolution& convolution, ConvolutionPlan& plan,
                        Pointers pointers) {
  constexpr int kCandidates = 8, kRuns = 3;
  CudaAllocator allocator = workspace_.allocator();
  const Buffer result = [&] {
    try {
      return Buffer(allocator, bytes_of_result(convolution));
    } catch (const Error& error) {
      fail(error.code(), "--autotune needs memory beside the training's: {}", error.what());
    }
  }();
  result_of(convolution.direction, pointers) = result.data();
  const Stopwatch stopwatch(stream);
  float best = std::numeric_limits<float>::infinity();
  std::size_t chosen = plan.position();
  int tried = 0;
  do {
    if (execute(op, stream, plan, pointers) != CUDNN_STATUS_SUCCESS) continue;  // warm-up
    const float milliseconds = stopwatch.time([&] {
      for (int i = 0; i < kRuns; ++i) CUDNN_CHECK(execute(op, stream, plan, pointers));
    });
    if (milliseconds < best) {
      best = milliseconds;
      chosen = plan.position();
    }
  } while (++tried < kCandidates && plan.advance(plans_.properties()));
  plan.settle(chosen, plans_.properties());
}

void Convolutions::conv2d_forward(Stream& stream, const ConvShape& shape, const TensorView& x,
                                  const TensorView& w, const TensorView& y) {
  contract::conv2d_forward(shape, x, w, y);
  run("conv2d_forward", stream, {Direction::forward, shape, x.dtype, false}, {x.data, w.data, y.data});
}

void Convolutions::conv2d_backward_data(Stream& stream, const ConvShape& shape, const TensorView& dy,
                                        const TensorView& w, const TensorView& dx, GradMode mode) {
  contract::conv2d_backward_data(shape, dy, w, dx);
  run("conv2d_backward_data", stream,
      {Direction::backward_data, shape, dy.dtype, mode == GradMode::accumulate}, {dx.data, w.data, dy.data});
}

void Convolutions::conv2d_backward_weight(Stream& stream, const ConvShape& shape, const TensorView& x,
                                          const TensorView& dy, const TensorView& dw, GradMode mode) {
  contract::conv2d_backward_weight(shape, x, dy, dw);
  const char* op = "conv2d_backward_weight";
  if (x.dtype == DType::f32) {
    return run(op, stream, {Direction::backward_weight, shape, x.dtype, mode == GradMode::accumulate},
               {x.data, dw.data, dy.data});
  }
  void* sums = workspace_.get(Area::product, dw.numel() * size_of(x.dtype));
  run(op, stream, {Direction::backward_weight, shape, x.dtype, false}, {x.data, sums, dy.data});
  widen_weight_gradient(stream, x.dtype, sums, dw.as<float>(), dw.numel(), mode);
}

}  // namespace lockstep::cuda
