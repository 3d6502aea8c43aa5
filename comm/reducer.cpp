#include "comm/reducer.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/profiler.h"

namespace lockstep {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

Reducer::Reducer(Communicator& communicator, Stream& compute, std::vector<Bucket> buckets,
                 std::vector<std::string> names, float* gradients, Options options)
    : communicator_(communicator),
      compute_(compute),
      buckets_(std::move(buckets)),
      names_(std::move(names)),
      gradients_(gradients),
      options_(options),
      bucket_of_(names_.size(), 0),
      pending_(buckets_.size(), 0),
      ready_(names_.size(), 0),
      reduced_(buckets_.size()) {
  // The buckets must hold every parameter once, in order: a parameter outside would silently stay local to
  // its rank.
  int parameter = 0;
  for (int b = 0; b < static_cast<int>(buckets_.size()); ++b) {
    const Bucket& bucket = buckets_[at(b)];
    LOCKSTEP_CHECK(bucket.first == parameter && bucket.last >= bucket.first &&
                       bucket.last < static_cast<int>(names_.size()),
                   "bucket {} holds parameters {} to {}, expected from {}", b, bucket.first, bucket.last,
                   parameter);
    for (; parameter <= bucket.last; ++parameter) bucket_of_[at(parameter)] = b;
    labels_.push_back(fmt::format("all_reduce of bucket {} ({} .. {})", b, names_[at(bucket.first)],
                                  names_[at(bucket.last)]));
  }
  LOCKSTEP_CHECK(parameter == static_cast<int>(names_.size()), "the buckets hold {} of {} parameters",
                 parameter, names_.size());
}

Reducer::~Reducer() {
  try {
    communicator_.stream().synchronize();
  } catch (const std::exception&) {
    // A collective failed; whoever waits for its result has got the error. Nothing runs any more.
  }
}

// Counts are set anew for each step, so that an error in one step cannot shift the launches of the next.
void Reducer::begin(bool synchronize) {
  LOCKSTEP_CHECK(!active_, "begin() before finish() of the step before");
  active_ = true;
  synchronize_ = synchronize;
  next_bucket_ = 0;
  launch_order_.clear();
  std::fill(ready_.begin(), ready_.end(), 0);
  for (std::size_t b = 0; b < buckets_.size(); ++b) pending_[b] = buckets_[b].last - buckets_[b].first + 1;
}

void Reducer::on_gradients_ready(int first, int last) {
  LOCKSTEP_CHECK(0 <= first && first <= last && last < static_cast<int>(names_.size()),
                 "parameters {} to {} of {} are ready", first, last, names_.size());
  // A callback outside begin() and finish() would touch counters of another step.
  LOCKSTEP_CHECK(active_, "the gradient of {} is ready, but begin() was not called", names_[at(first)]);
  if (!synchronize_) return;
  // Ready twice means a layer that was run twice, or listed twice: its bucket would be launched with half a
  // gradient.
  for (int p = first; p <= last; ++p) {
    LOCKSTEP_CHECK(!ready_[at(p)], "the gradient of {} is ready for the second time in one backward pass",
                   names_[at(p)]);
    ready_[at(p)] = 1;
    --pending_[at(bucket_of_[at(p)])];
  }
  if (options_.overlap) launch_full_buckets();
}

// A bucket that is full before its turn waits for the ones before it. This loop is the whole ordering
// invariant.
void Reducer::launch_full_buckets() {
  while (next_bucket_ < static_cast<int>(buckets_.size()) && pending_[at(next_bucket_)] == 0) {
    launch(next_bucket_++);
  }
}

// Neither the host nor backward waits here: the comm stream does, for the point that compute has reached now.
void Reducer::launch(int b) {
  const ProfilerRange range(labels_[at(b)]);
  const Bucket& bucket = buckets_[at(b)];
  Stream& comm = communicator_.stream();
  comm.wait(compute_.record());

  // The spans are tasks of the comm stream too, so they time the collective and not the wait for its turn.
  Tracer* tracer = options_.tracer;
  auto begin = std::make_shared<std::int64_t>(0);
  if (tracer) comm.submit([tracer, begin] { *begin = tracer->now(); });
  communicator_.all_reduce(gradients_ + bucket.offset, bucket.length, ReduceOp::mean, labels_[at(b)]);
  if (tracer) {
    comm.submit(
        [tracer, begin, label = labels_[at(b)]] { tracer->add(label, "comm", *begin, tracer->now()); });
  }

  // Whoever needs this bucket alone, as an optimiser that works bucket by bucket, waits for this event.
  reduced_[at(b)] = comm.record();
  launch_order_.push_back(b);
}

void Reducer::finish() {
  LOCKSTEP_CHECK(active_, "finish() without begin()");
  if (synchronize_) {
    // The other ranks would wait for this bucket until the watchdog ends them: better to say what is missing.
    std::string missing;
    for (std::size_t p = 0; p < names_.size(); ++p) {
      if (!ready_[p]) missing += (missing.empty() ? "" : ", ") + names_[p];
    }
    LOCKSTEP_CHECK(missing.empty(), "backward ended without a gradient for: {}", missing);
    // With overlap all are under way; without, this launches them all, in the same order: hence the same
    // bits.
    launch_full_buckets();
    // The comm stream is first-in first-out: past the last bucket all are averaged.
    if (!buckets_.empty()) compute_.wait(reduced_.back());
  }
  active_ = false;
}

}  // namespace lockstep
