#include "kernels/cuda/convolution_plans.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"

namespace lockstep::cuda {
namespace {

using Dims = std::vector<std::int64_t>;

cudnnDataType_t data_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f16:
      return CUDNN_DATA_HALF;
    default:
      break;
  }
  fail(ExitCode::internal, "{} is not a type to compute in", name_of(type));
}

// cuDNN writes dimensions as N, C, H, W (weights: K, C, R, S); the strides say that C is the fastest.
Descriptor tensor(TensorId id, DType type, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(type))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, Dims{n, c, h, w})
      .set(CUDNN_ATTR_TENSOR_STRIDES, Dims{h * w * c, 1, w * c, c})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  return std::move(descriptor.finalize());
}

// Cross-correlation with f32 sums.
Descriptor geometry(const ConvShape& s) {
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  Descriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Dims{1, 1})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Dims{s.stride, s.stride})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{s.padding, s.padding})
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Dims{s.padding, s.padding});
  return std::move(descriptor.finalize());
}

// The names that the three directions have for the same six attributes.
struct Attributes {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t geometry, input, weight, output, alpha, beta;
};

Attributes attributes_of(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case Direction::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Direction::backward_weight:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

const char* name_of(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return "forward";
    case Direction::backward_data:
      return "data gradient";
    case Direction::backward_weight:
      break;
  }
  return "weight gradient";
}

bool has(const std::vector<cudnnBackendNumericalNote_t>& notes, cudnnBackendNumericalNote_t note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

// Adds the proposals of one mode, those on tensor cores first.
void add_candidates(const Convolution& convolution, const DeviceProperties& properties,
                    cudnnBackendHeurMode_t mode, std::vector<Descriptor>& candidates) {
  std::vector<Descriptor> proposed = propose(convolution_graph(convolution), properties, mode);
  std::stable_partition(proposed.begin(), proposed.end(), [](const Descriptor& config) {
    return has(numerical_notes(config), CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  });
  std::move(proposed.begin(), proposed.end(), std::back_inserter(candidates));
}

}  // namespace

std::string describe(const Convolution& convolution) {
  const ConvShape& s = convolution.shape;
  return fmt::format("{} {}, {} images {}x{}, {} -> {} channels, kernel {}, stride {}, padding {}{}",
                     name_of(convolution.type), name_of(convolution.direction), s.n, s.h, s.w, s.c_in,
                     s.c_out, s.kernel, s.stride, s.padding, convolution.accumulate ? ", accumulated" : "");
}

std::int64_t channels_in_vectors(std::int64_t channels, DType type) {
  const std::int64_t vector = 16 / size_of(type);
  return (channels + vector - 1) / vector * vector;
}

Descriptor convolution_graph(const Convolution& convolution) {
  const ConvShape& s = convolution.shape;
  const Attributes names = attributes_of(convolution.direction);
  Descriptor operation(names.operation);
  operation.set(names.geometry, geometry(s))
      .set(names.input, tensor(kInput, convolution.type, s.n, s.c_in, s.h, s.w))
      .set(names.weight, tensor(kWeight, convolution.type, s.c_out, s.c_in, s.kernel, s.kernel))
      .set(names.output, tensor(kOutput, convolution.type, s.n, s.c_out, s.out_h(), s.out_w()))
      .set(names.alpha, 1.0f)
      .set(names.beta, convolution.accumulate ? 1.0f : 0.0f)
      .finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  return std::move(graph.finalize());
}

ConvolutionPlan::ConvolutionPlan(const Convolution& convolution, const DeviceProperties& properties,
                                 Precision precision)
    : convolution_(convolution), precision_(precision), plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
  add_candidates(convolution, properties, CUDNN_HEUR_MODE_A, configs_);
  if (!advance(properties)) {
    fail(
        ExitCode::device,
        "cuDNN {} has no engine for this convolution on this device ({}): {} candidates, none of them exact, "
        "repeatable and content with {} MiB of workspace. Use another --batch-size or --device cpu",
        cudnnGetVersion(), describe(convolution), configs_.size(), kWorkspaceLimit >> 20);
  }
}

bool ConvolutionPlan::uses_tensor_cores() const {
  return has(numerical_notes(configs_[next_ - 1]), CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

bool ConvolutionPlan::admits(const Descriptor& config) const {
  const auto notes = numerical_notes(config);
  if (has(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  if (has(notes, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;
  if (has(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  const bool exact = convolution_.type == DType::f32 && precision_ == Precision::fp32;
  return !exact || !has(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

bool ConvolutionPlan::take(const Descriptor& config, const DeviceProperties& properties) {
  if (!admits(config)) return false;
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
      .set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties.descriptor());
  if (!plan.try_finalize()) return false;
  const std::int64_t bytes = plan.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (bytes > kWorkspaceLimit) return false;
  plan_ = std::move(plan);
  workspace_bytes_ = bytes;
  return true;
}

bool ConvolutionPlan::advance(const DeviceProperties& properties) {
  for (std::size_t i = next_;; ++i) {
    if (i == configs_.size()) {
      if (asked_fallback_) return false;
      asked_fallback_ = true;
      add_candidates(convolution_, properties, CUDNN_HEUR_MODE_FALLBACK, configs_);
      if (i == configs_.size()) return false;
    }
    if (!take(configs_[i], properties)) continue;
    next_ = i + 1;
    return true;
  }
}

void ConvolutionPlan::settle(std::size_t position, const DeviceProperties& properties) {
  const bool taken = take(configs_[position], properties);
  LOCKSTEP_CHECK(taken, "{}: plan {} cannot be made again", describe(convolution_), position);
  next_ = position + 1;
  settled_ = true;
}

ConvolutionPlan& ConvolutionPlans::get(const Convolution& convolution) {
  const ConvShape& s = convolution.shape;
  const Key key = {static_cast<std::int64_t>(convolution.direction),
                   static_cast<std::int64_t>(convolution.type),
                   convolution.accumulate,
                   s.n,
                   s.h,
                   s.w,
                   s.c_in,
                   s.c_out,
                   s.kernel,
                   s.stride,
                   s.padding};
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  return plans_.emplace(key, ConvolutionPlan(convolution, properties_, precision_)).first->second;
}

}  // namespace lockstep::cuda
