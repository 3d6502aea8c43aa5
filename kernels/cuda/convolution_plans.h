// Execution plans of convolutions: which of cuDNN's engines runs which convolution. Nothing here touches a
// device; see cudnn_graph.h.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "kernels/backend.h"
#include "kernels/cuda/cudnn_graph.h"

namespace lockstep::cuda {

enum class Direction { forward, backward_data, backward_weight };

// How f32 tensors are multiplied. tf32 rounds both factors to 10 bits of mantissa for the tensor cores. Sums
// are f32 in any case, and 16-bit tensors always use the tensor cores.
enum class Precision { fp32, tf32 };

// The first plan whose workspace stays below is taken. The largest that a ResNet then gets is 254 MiB (all
// ResNets, both stems, batch up to 256).
constexpr std::int64_t kWorkspaceLimit = std::int64_t{256} << 20;

struct Convolution {
  Direction direction = Direction::forward;
  ConvShape shape;
  DType type = DType::f32;  // of all three tensors, and so of dw
  bool accumulate = false;  // the result is added to what its tensor holds, in one rounding
};

// The names of the three tensors in a variant pack.
enum TensorId : std::int64_t { kInput = 1, kWeight = 2, kOutput = 3 };

std::string describe(const Convolution& convolution);

// How many channels fill whole 16-byte vectors of the type.
std::int64_t channels_in_vectors(std::int64_t channels, DType type);

// The operation graph, finalized: one convolution on dense NHWC tensors and KRSC weights.
Descriptor convolution_graph(const Convolution& convolution);

// A finalized plan, and the next candidates in case that a device refuses it. Candidates come from the
// heuristics' mode A, then from its fallback; in each those on tensor cores go first, for the heuristics put
// engines without them in front of some 1x1 convolutions and of small batches. Left out: plans that do not
// give the same bits each time, that sum in less than f32, that need more workspace than the limit, that
// convert their inputs to a shorter type, and, for fp32, those on tensor cores, which would round them to
// TF32.
class ConvolutionPlan {
 public:
  // Error(device) where no candidate is left.
  ConvolutionPlan(const Convolution& convolution, const DeviceProperties& properties, Precision precision);

  const Convolution& convolution() const { return convolution_; }
  const Descriptor& plan() const { return plan_; }
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  bool uses_tensor_cores() const;
  std::string json() const { return plan_.text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION); }

  // Makes the next candidate the plan; false, and no change, where there is none.
  bool advance(const DeviceProperties& properties);

  // The place of the plan among the candidates, and the way back to one that was the plan before; from then
  // on it is settled.
  std::size_t position() const { return next_ - 1; }
  void settle(std::size_t position, const DeviceProperties& properties);
  bool settled() const { return settled_; }

 private:
  bool admits(const Descriptor& config) const;
  bool take(const Descriptor& config, const DeviceProperties& properties);  // false: it makes no plan

  Convolution convolution_;
  Precision precision_;
  std::vector<Descriptor> configs_;
  std::size_t next_ = 0;  // the plan's configuration is the one before
  bool settled_ = false;
  bool asked_fallback_ = false;  // its configurations are asked for only when mode A's are used up
  Descriptor plan_;
  std::int64_t workspace_bytes_ = 0;
};

// The plans of one device, made when they are first asked for.
class ConvolutionPlans {
 public:
  explicit ConvolutionPlans(DeviceProperties properties, Precision precision = Precision::fp32)
      : properties_(std::move(properties)), precision_(precision) {}

  ConvolutionPlan& get(const Convolution& convolution);  // stays where it is
  const DeviceProperties& properties() const { return properties_; }
  Precision precision() const { return precision_; }

 private:
  using Key = std::array<std::int64_t, 11>;
  DeviceProperties properties_;
  Precision precision_;
  std::map<Key, ConvolutionPlan> plans_;
};

}  // namespace lockstep::cuda
