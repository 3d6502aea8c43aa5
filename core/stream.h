// Streams and events: one model of order for every backend.
//
// A Stream runs work first-in first-out. An Event marks a point in a stream; another stream, or the host, can
// wait for it. Three kinds:
//   InlineStream  runs each task inside submit(): the compute stream of the CPU backends.
//   WorkerStream  one thread that takes tasks from a queue: the comm stream of the CPU backends.
//   CudaStream    cudaStream_t (core/cuda_stream.h): work is enqueued by kernels through native_handle().
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace lockstep {

// Shared handle of a point in a stream. A default Event is complete.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool query() = 0;  // complete? never blocks
    // Blocks the host (asleep, not spinning); rethrows the error of a failed task.
    virtual void synchronize() = 0;
    virtual void* native_handle() { return nullptr; }
  };

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool query() const { return !state_ || state_->query(); }
  void synchronize() const {
    if (state_) state_->synchronize();
  }
  void* native_handle() const { return state_ ? state_->native_handle() : nullptr; }

 private:
  std::shared_ptr<State> state_;
};

class Stream;

// Work that was enqueued once and runs again as one piece (a CUDA graph): the same ops on the same memory.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay(Stream& stream) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Runs host code in the stream's order. An exception of a task is kept: later tasks are dropped, and every
  // wait for them rethrows it.
  virtual void submit(std::function<void()> task) = 0;
  virtual Event record() = 0;
  // Work submitted later runs after the event. The host blocks only where the stream runs inline.
  virtual void wait(const Event& event) = 0;
  virtual void synchronize() = 0;
  // What is enqueued between the two is recorded and does not run; so is what other streams do behind a wait
  // for an event of this one, and this one must wait for their last. No memory may be allocated, no host task
  // submitted and nothing waited for in between. Only a CudaStream can.
  virtual void begin_recording();
  virtual std::unique_ptr<Recording> end_recording();
  virtual void* native_handle() { return nullptr; }
};

class InlineStream final : public Stream {
 public:
  void submit(std::function<void()> task) override { task(); }
  Event record() override { return {}; }
  void wait(const Event& event) override { event.synchronize(); }
  void synchronize() override {}
};

class WorkerStream final : public Stream {
 public:
  explicit WorkerStream(const std::string& thread_name);
  ~WorkerStream() override;  // runs what is queued, then joins; never throws
  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  void submit(std::function<void()> task) override;
  Event record() override;
  void wait(const Event& event) override;
  void synchronize() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
