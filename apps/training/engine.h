// Everything that one rank trains with, in the order of its lifetime. The trainer and bench/step_bench both
// make one.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/training/canonical.h"
#include "apps/training/options.h"
#include "apps/training/train_step.h"

namespace lockstep {

// Calls back at the end of each phase of start-up, with its name.
using PhaseDone = std::function<void(const std::string& phase)>;

// What plan_buckets() takes, for a job of `ranks` processes.
std::vector<std::int64_t> bucket_caps(const Options& options, int ranks);

class Engine {
 public:
  // Verifies across ranks, in this order: options, data, parameters; then initial weights, which every rank
  // computes for itself, are compared by hash (and sent by rank 0 only where they differ). Errors of one rank
  // are agreed.
  Engine(Communicator& communicator, const Device& device, const Options& given, const Options& resolved,
         Tracer* tracer, const PhaseDone& done);

  const Options& options() const { return options_; }
  Communicator& communicator() { return communicator_; }
  Context& context() { return context_; }
  ResNet& model() { return *model_; }
  ParameterStore& store() { return store_; }
  DeviceDataset& train_data() { return *train_data_; }
  DeviceDataset& test_data() { return *test_data_; }
  TrainStep& step() { return *step_; }
  const CanonicalModel& canonical() const { return *canonical_; }

  // Samples of a rank and steps in an epoch; equal on all ranks.
  std::int64_t samples_per_epoch() const { return samples_; }
  std::int64_t steps_per_epoch() const { return steps_; }
  // The order of this rank's samples in an epoch, and the part of one step (the last may be smaller).
  std::vector<std::int64_t> epoch_indices(std::int64_t epoch, int rank) const;
  std::span<const std::int64_t> batch(const std::vector<std::int64_t>& indices,
                                      std::int64_t step_in_epoch) const;

  // Rank 0's running statistics are the ones that count (as in PyTorch's DistributedDataParallel).
  void broadcast_statistics();

 private:
  void load_data();
  void refuse_single_values() const;
  void build_model();
  void allocate_activations(std::int64_t batch, DType compute);
  void equalize_weights();

  Communicator& communicator_;
  Options options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  Context context_;
  DatasetPair datasets_;
  std::int64_t samples_ = 0, steps_ = 0;
  ParameterStore store_;
  std::unique_ptr<ResNet> model_;
  std::unique_ptr<DeviceDataset> train_data_, test_data_;
  Arena activations_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<CanonicalModel> canonical_;
};

}  // namespace lockstep
