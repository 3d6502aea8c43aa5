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

std::int64_t weight_rows(const ConvShape& s) {
  return s.c_out * s.kernel * s.kernel;
}

std::int64_t bytes_of_result(const Convolution& convolution) {
  const ConvShape& s = convolution.shape;
  switch (convolution.direction) {
    case Direction::forward:
      return s.n * s.out_h() * s.out_w() * s.c_out * size_of(convolution.type);
    case Direction::backward_data:
      return s.n * s.h * s.w * s.c_in * size_of(convolution.type);
    case Direction::backward_weight:
      break;
  }
  return weight_rows(s) * s.c_in * size_of(DType::f32);
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

cudnnStatus_t Convolutions::execute(const Call& call, const ConvolutionPlan& plan) {
  const ConvShape& s = call.convolution.shape;
  const DType type = call.convolution.type;
  const Direction direction = call.convolution.direction;
  const std::int64_t channels = plan.convolution().shape.c_in, weights = weight_rows(s) * channels;
  Pointers pointers = call.pointers;
  const auto pad = [&](Area area, void*& tensor, std::int64_t rows) {
    void* padded = workspace_.get(area, rows * channels * size_of(type));
    pad_channels(call.stream, type, tensor, padded, rows, s.c_in, channels);
    tensor = padded;
  };
  if (channels != s.c_in) {
    pad(Area::padded_input, pointers.input, s.n * s.h * s.w);
    if (direction == Direction::forward) pad(Area::padded_weight, pointers.weight, weight_rows(s));
  }
  const bool widens = direction == Direction::backward_weight && (channels != s.c_in || type != DType::f32);
  if (widens) pointers.weight = workspace_.get(Area::product, weights * size_of(type));
  const std::int64_t bytes = plan.workspace_bytes();
  void* scratch = bytes > 0 ? workspace_.get(Area::plan, bytes) : nullptr;
  const Descriptor pack = variant_pack(aligned(call.op, pointers.input), aligned(call.op, pointers.weight),
                                       aligned(call.op, pointers.output), scratch);
  const cudnnStatus_t status =
      cudnnBackendExecute(handle_.on(call.op, call.stream), plan.plan().get(), pack.get());
  if (status == CUDNN_STATUS_SUCCESS && widens) {
    widen_weight_gradient(call.stream, type, pointers.weight, static_cast<float*>(call.pointers.weight),
                          weight_rows(s), s.c_in, channels, call.mode);
  }
  return status;
}

void Convolutions::run(const Call& call) {
  ConvolutionPlan& plan = plans_.get(call.convolution);
  if (autotune_ && !plan.settled()) tune(call, plan);
  for (;;) {
    const cudnnStatus_t status = execute(call, plan);
    if (status == CUDNN_STATUS_SUCCESS) return;
    // A refused plan has not touched the result. The next one stays the plan, so each is tried, and told,
    // once.
    const std::string refused =
        fmt::format("{} ({})", describe(plan.convolution()), cudnnGetErrorString(status));
    if (!plan.advance(plans_.properties())) CUDNN_CHECK(status);
    warn_("cuDNN: the device refused a plan, the next one is tried: " + refused);
  }
}

// The candidates write to a tensor of their own: some add to what is there.
void Convolutions::tune(Call call, ConvolutionPlan& plan) {
  CudaAllocator allocator = workspace_.allocator();
  const Buffer result = [&] {
    try {
      return Buffer(allocator, bytes_of_result(call.convolution));
    } catch (const Error& error) {
      fail(error.code(), "--autotune needs memory beside the training's: {}", error.what());
    }
  }();
  const Direction direction = call.convolution.direction;
  result_of(direction, call.pointers) = result.data();
  const float as_it_is = settle_on_fastest(call, plan);
  Convolution padded = call.convolution;
  padded.shape.c_in = channels_in_vectors(padded.shape.c_in, padded.type);
  if (direction == Direction::backward_data || padded.shape.c_in == call.convolution.shape.c_in) return;
  if (direction == Direction::backward_weight) padded.accumulate = false;
  ConvolutionPlan other(padded, plans_.properties(), plans_.precision());
  if (settle_on_fastest(call, other) < as_it_is) plan = std::move(other);
}

// A candidate that the device refuses counts as slow.
float Convolutions::settle_on_fastest(const Call& call, ConvolutionPlan& plan) {
  constexpr int kCandidates = 8, kRuns = 3;
  const Stopwatch stopwatch(call.stream);
  float best = std::numeric_limits<float>::infinity();
  std::size_t chosen = plan.position();
  int tried = 0;
  do {
    if (execute(call, plan) != CUDNN_STATUS_SUCCESS) continue;  // warm-up
    const float milliseconds = stopwatch.time([&] {
      for (int i = 0; i < kRuns; ++i) CUDNN_CHECK(execute(call, plan));
    });
    if (milliseconds < best) {
      best = milliseconds;
      chosen = plan.position();
    }
  } while (++tried < kCandidates && plan.advance(plans_.properties()));
  plan.settle(chosen, plans_.properties());
  return best;
}

void Convolutions::conv2d_forward(Stream& stream, const ConvShape& shape, const TensorView& x,
                                  const TensorView& w, const TensorView& y) {
  contract::conv2d_forward(shape, x, w, y);
  run({"conv2d_forward",
       stream,
       {Direction::forward, shape, x.dtype, false},
       {x.data, w.data, y.data},
       GradMode::overwrite});
}

void Convolutions::conv2d_backward_data(Stream& stream, const ConvShape& shape, const TensorView& dy,
                                        const TensorView& w, const TensorView& dx, GradMode mode) {
  contract::conv2d_backward_data(shape, dy, w, dx);
  run({"conv2d_backward_data",
       stream,
       {Direction::backward_data, shape, dy.dtype, mode == GradMode::accumulate},
       {dx.data, w.data, dy.data},
       mode});
}

void Convolutions::conv2d_backward_weight(Stream& stream, const ConvShape& shape, const TensorView& x,
                                          const TensorView& dy, const TensorView& dw, GradMode mode) {
  contract::conv2d_backward_weight(shape, x, dy, dw);
  const bool plan_adds = mode == GradMode::accumulate && x.dtype == DType::f32;
  run({"conv2d_backward_weight",
       stream,
       {Direction::backward_weight, shape, x.dtype, plan_adds},
       {x.data, dw.data, dy.data},
       mode});
}

}  // namespace lockstep::cuda
