// One training step, the same object for the trainer and for bench/step_bench.
//
//   compute | augment, forward, loss | backward ............................. | update | board to the host
//                                    \ board                  \ b0     \ b1
//   comm                              | all_reduce of 4 floats | b0     | b1
//
// The host decides nothing inside a step and waits for nothing: what a step needs to know lies on a board of
// a few floats in the communicator's memory, where ops read it. {loss, skip, SIGINT, SIGTERM} go first into
// the comm stream, right behind the loss, so that their sums have arrived by the time the first bucket has:
// no weight changes before all ranks know that all losses are finite, and all ranks agree on it, and on a
// request to stop, without a collective of their own. On a device the result of a step is read while the next
// one runs.
//
// One process updates a bucket's slice inside backward, while its gradients are still in the cache. With
// several ranks the updates come after backward, bucket after bucket as they arrive, and hide the last ones'
// all-reduce. With loss scaling (fp16) they wait until all buckets are known to be finite.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/training/device_dataset.h"
#include "apps/training/loss_scale.h"
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
    bool loss_scaling = false;  // fp16
    bool record = false;        // replay the step as one recording (--cuda-graph)
    int lag = 0;                // steps that may be under way when the result of one is read
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
    double learning_rate = 0;
    std::int64_t samples = 0;  // of this rank
    double loss = 0;           // mean over the ranks
    bool skipped = false;  // nothing was changed on any rank: a loss was not finite, or, with loss scaling,
                           // a gradient (overflow)
    bool overflow = false;
    bool overflow_at_floor = false;  // the loss scale cannot become smaller
    bool own_loss_finite = true;
    // Of a step with a loss that is not finite: the first such tensor of this rank. Of an overflow at the
    // smallest loss scale: the first parameter whose gradient is not finite, in the newest step. Else "".
    std::string non_finite;
    LossScale loss_scale;    // for the next step
    int signal = 0;          // arrived at some rank
    double ms_forward = 0;   // input, forward and loss: of the host, which on a device only enqueues
    double ms_backward = 0;  // without the updates inside it
    double ms_optimizer = 0;
    double ms_step = 0;  // all of it, waiting included; since the result before where steps overlap
  };

  static constexpr LossScaleOptions kScaling{};
  // Of the communicator's memory, beside the gradients.
  static constexpr std::int64_t kReducedBytes = 256;

  // Everything is borrowed and outlives the step.
  TrainStep(Context& context, Communicator& communicator, ResNet& model, ParameterStore& store,
            DeviceDataset& data, const Settings& settings);
  ~TrainStep();  // waits for what is under way: it comes back to memory of this object
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  // Steps run in the order of enqueue(); collect() waits for the oldest one that was not collected. At most
  // lag() + 1 steps may be pending.
  void enqueue(const Request& request);
  Result collect();
  int pending() const { return static_cast<int>(pending_.size()); }
  int lag() const { return settings_.lag; }
  Result run(const Request& request);  // both; nothing is pending before and after

  void set_loss_scale(const LossScale& state);  // of a run that goes on

 private:
  // A step under way: what it takes to the board and brings back, in host memory that copies reach.
  struct Slot {
    Buffer memory;
    Event done;
  };
  struct Pending {
    Result result;  // as far as the host knows
    std::size_t slot = 0;
    bool communicate = true;
    std::chrono::steady_clock::time_point begin;
  };
  struct Recorded {
    std::int64_t generation = -1;  // of the backend's scratch memory
    std::unique_ptr<Recording> recording;
  };

  TensorView board(int position) const;
  void run_or_replay(const Request& request, Result& result);
  std::unique_ptr<Recording> record(const Request& request, Result& result);
  void take(const Request& request, Result& result);
  void forward(const Request& request, Result& result);
  void backward(const Request& request, Result& result);
  void on_gradients_ready(int first, int last, const Request& request, Result& result);
  void update(int bucket, Result& result);
  void check_gradients();
  void undo_statistics();
  void read(const Pending& pending, Result& result);

  Context& context_;
  Communicator& communicator_;
  ResNet& model_;
  ParameterStore& store_;
  DeviceDataset& data_;
  Settings settings_;
  Optimizer optimizer_;
  Buffer board_memory_;  // of the communicator
  Reducer reducer_;      // behind it: its destructor waits for the collectives that write there
  SoftmaxCrossEntropy loss_;
  Buffer correct_;            // i32 [1]: not used in training
  Buffer saved_statistics_;   // batch norm's running statistics before this step
  Buffer failed_statistics_;  // what a skipped step had made of them
  SgdControl control_;
  int updated_buckets_ = 0;
  std::array<Slot, 2> slots_;
  std::size_t next_slot_ = 0;
  std::deque<Pending> pending_;
  std::map<std::pair<std::int64_t, bool>, Recorded> recorded_;  // by batch size and communicate
  std::chrono::steady_clock::time_point collected_;
};

}  // namespace lockstep
