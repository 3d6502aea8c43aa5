// The reducer: averages gradients over the ranks, bucket by bucket, while backward is still running.
//
//   compute  | bwd fc | bwd layer4     | bwd layer3     | bwd ... conv1 | finish() waits by event | next step
//                     \e0              \e1                             \e2
//   comm               | all_reduce b0 | all_reduce b1  |               | all_reduce b2 |
//
// The invariant: buckets are launched strictly in index order, on every rank, whatever the order in which
// their gradients became ready. Collectives are matched by order, so a rank that launched another order would
// average the wrong tensors or hang.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/bucket_plan.h"
#include "comm/communicator.h"
#include "core/stream.h"
#include "core/trace.h"

namespace lockstep {

class Reducer {
 public:
  struct Options {
    bool overlap = true;  // false: all buckets are launched in finish(); the same bits
    Tracer* tracer = nullptr;
  };

  // names[i] is the name of parameter i, for messages. gradients is the flat buffer.
  Reducer(Communicator& communicator, Stream& compute, std::vector<Bucket> buckets,
          std::vector<std::string> names, float* gradients, Options options);
  // Waits for all that is under way on the comm stream, as after an error in the middle of a step: it still
  // writes to the gradients. The watchdog bounds the wait where a peer is gone.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Before backward. synchronize = false: gradients only accumulate on this rank (PyTorch's no_sync), nothing
  // travels.
  void begin(bool synchronize = true);
  // Parameters first..last (inclusive) have their gradients, on the compute stream. Error(internal) with the
  // name when one was ready already or begin() was not called. Launches the buckets that are now full and
  // next in order.
  void on_gradients_ready(int first, int last);
  // Every bucket is averaged when the compute stream gets past this call. Error(internal) naming the
  // parameters that never became ready.
  void finish();

  const std::vector<Bucket>& buckets() const { return buckets_; }
  // Bucket b of this step is averaged: an event on the comm stream. Valid after it was launched.
  const Event& reduced(int bucket) const { return reduced_[static_cast<std::size_t>(bucket)]; }
  // The order in which the buckets of this step were launched.
  const std::vector<int>& launch_order() const { return launch_order_; }

 private:
  void launch_full_buckets();
  void launch(int bucket);

  Communicator& communicator_;
  Stream& compute_;
  std::vector<Bucket> buckets_;
  std::vector<std::string> labels_;  // by bucket: what its all_reduce is called in messages and traces
  std::vector<std::string> names_;
  float* gradients_;
  Options options_;
  std::vector<int> bucket_of_;  // by parameter
  std::vector<int> pending_;    // by bucket: parameters that are not ready
  std::vector<char> ready_;     // by parameter
  std::vector<Event> reduced_;
  std::vector<int> launch_order_;
  int next_bucket_ = 0;
  bool active_ = false;
  bool synchronize_ = true;
};

}  // namespace lockstep
