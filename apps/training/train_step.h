// One training step, the same object for the trainer and for bench/step_bench.
//
//   compute | augment, forward, loss | backward ............................. | update | result
//                                    \ outcome                \ b0     \ b1
//   comm                              | all_reduce of 4 floats | b0     | b1
//
// The outcome {loss, not finite, SIGINT, SIGTERM} goes first into the comm stream, right behind the loss, so
// that it has arrived by the time the first bucket has: no weight changes before all ranks know that all
// losses are finite, and all ranks agree on it, and on a request to stop, without a collective of their own.
//
// One process updates a bucket's slice inside backward, while its gradients are still in the cache. With
// several ranks the updates come after backward, bucket after bucket as they arrive, and hide the last ones'
// all-reduce.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/training/device_dataset.h"
#include "apps/training/optimizer.h"
#include "comm/communicator.h"
#include "comm/reducer.h"
#include "layers/softmax_cross_entropy.h"
#include "models/resnet.h"

namespace lockstep {

class TrainStep {
 public:
  struct Settings {
    Optimizer::Settings optimizer;
    double label_smoothing = 0;
    std::uint64_t seed = 0;
    bool overlap = true;
    std::vector<std::int64_t> bucket_caps_bytes;
  };
  struct Request {
    std::span<const std::int64_t> samples;  // of this rank
    std::int64_t epoch = 0;                 // keys the augmentation
    double learning_rate = 0;
    int signal = 0;           // arrived at this rank, or 0
    bool communicate = true;  // false: a step of this rank alone (step_bench)
  };
  struct Result {
    double loss = 0;       // mean over the ranks
    bool skipped = false;  // a loss was not finite on some rank: nothing was changed on any
    bool own_loss_finite = true;
    std::string non_finite;  // of a skipped step: the first tensor of this rank that is not finite, or ""
    int signal = 0;          // arrived at some rank
    double ms_forward = 0;   // input, forward and loss
    double ms_backward = 0;  // without the updates inside it
    double ms_optimizer = 0;
    double ms_step = 0;  // all of it, waiting included
  };

  // Everything is borrowed and outlives the step.
  TrainStep(Context& context, Communicator& communicator, ResNet& model, ParameterStore& store,
            DeviceDataset& data, const Settings& settings);

  Result run(const Request& request);

 private:
  void forward(const Request& request, Result& result);
  void backward(const Request& request, Result& result);
  void on_gradients_ready(int first, int last, const Request& request, Result& result);
  void update(int bucket, const Request& request, Result& result);
  void read_outcome(const Request& request, Result& result);
  void undo_statistics(Result& result);

  Context& context_;
  Communicator& communicator_;
  ResNet& model_;
  ParameterStore& store_;
  DeviceDataset& data_;
  Settings settings_;
  Optimizer optimizer_;
  Buffer outcome_memory_;  // of the communicator: {loss, not finite, SIGINT, SIGTERM}, summed over the ranks
  Reducer reducer_;        // behind it: its destructor waits for the collectives that write there
  SoftmaxCrossEntropy loss_;
  Arena loss_memory_;
  Buffer saved_statistics_;  // batch norm's running statistics before this step
  Event outcome_reduced_;
  TensorView logits_;  // of this step
  bool outcome_known_ = false;
  int updated_buckets_ = 0;
};

}  // namespace lockstep
