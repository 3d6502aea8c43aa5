// The communicator over NCCL: one rank a device, collectives on a stream of high priority.
//
// A collective whose peers do not come never ends, and the host does not wait for it where it was enqueued.
// So a thread follows the collectives in their order: it asks NCCL for errors that came meanwhile, and the
// watchdog counts how long the oldest one is under way.
#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "comm/communicator.h"
#include "comm/watchdog.h"
#include "core/cuda_allocator.h"
#include "core/cuda_stream.h"

namespace lockstep {

class NcclCommunicator final : public Communicator {
 public:
  // on_failure receives the message of an error or time-out, on another thread; it ends the process.
  NcclCommunicator(Communicator& host, int device, std::chrono::seconds timeout,
                   std::function<void(const std::string&)> on_failure);
  // Waits for what is under way; after an error in this rank it aborts it instead.
  ~NcclCommunicator() override;

  const char* name() const override { return "nccl"; }
  std::string description() const override;
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  Stream& stream() override { return stream_; }
  Allocator& allocator() override { return allocator_; }

  void all_reduce(float* data, std::int64_t count, ReduceOp op, const std::string& what) override;
  // count must be a multiple of size().
  void reduce_scatter(float* data, std::int64_t count, ReduceOp op, const std::string& what) override;
  void all_gather(float* data, std::int64_t count, const std::string& what) override;
  void broadcast(float* data, std::int64_t count, int root, const std::string& what) override;
  void watch(const std::string& what, const Event& done) override;

  void all_reduce_host(double* data, std::int64_t count, ReduceOp op, const std::string& what) override {
    host_.all_reduce_host(data, count, op, what);
  }
  void broadcast_host(void* data, std::int64_t bytes, int root, const std::string& what) override {
    host_.broadcast_host(data, bytes, root, what);
  }
  void all_gather_host(const void* in, std::int64_t bytes, void* out, const std::string& what) override {
    host_.all_gather_host(in, bytes, out, what);
  }
  void barrier(const std::string& what) override { host_.barrier(what); }

 private:
  // A collective was enqueued, with this result.
  void enqueued(ncclResult_t result, const std::string& what);
  std::int64_t chunk(std::int64_t count, const std::string& what) const;
  void follow(const std::string& what, const Event& done);
  std::string asynchronous_error(const std::string& what);
  void abort();

  Communicator& host_;
  CudaAllocator allocator_;
  CudaStream stream_;
  Watchdog watchdog_;
  std::function<void(const std::string&)> on_failure_;
  std::mutex comm_mutex_;  // between the follower, who asks, and abort(), which frees
  ncclComm_t comm_ = nullptr;
  int exceptions_;
  WorkerStream follower_;  // last: its destructor runs what is queued
};

}  // namespace lockstep
