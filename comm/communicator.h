// Collectives between the ranks of a job. Implementations: single_ (one process, no MPI), mpi_ and nccl_.
//
// Stream collectives are enqueued on `stream`: they start when the work before them on that stream is done,
// and the host does not block. Every rank must issue the same sequence. Host collectives block the caller;
// they go through the same queue, so that one thread makes all MPI calls.
//
// A collective that fails is Error(peer): a host collective throws it, a stream collective gives it to
// whoever waits for the stream or an event behind it. A peer that never comes is the watchdog's business.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/reduction.h"
#include "core/allocator.h"
#include "core/dtype.h"
#include "core/stream.h"

namespace lockstep {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual const char* name() const = 0;
  // For people: library, version, algorithm.
  virtual std::string description() const { return name(); }
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The stream that collectives of this communicator run on.
  virtual Stream& stream() = 0;
  // Memory on which a collective needs no copy.
  virtual Allocator& allocator() = 0;
  // The allocator gets room for `bytes` more on which a collective needs no copy; false: there is none such.
  // All ranks call it with the same bytes, and then allocate in the same order.
  virtual bool reserve(std::int64_t /*bytes*/) { return false; }

  // data[0..count) of f32, in place: the same bits on every rank. mean is the sum times 1/size in the same
  // task. The data must live, and be left alone, until the collective is done on the stream.
  virtual void all_reduce(float* data, std::int64_t count, ReduceOp op, const std::string& what) = 0;
  // The same for its halves, and for one rank's data. reduce_scatter leaves chunk_of(count, size, rank)
  // reduced on each rank and the rest undefined; all_gather spreads these chunks.
  virtual void reduce_scatter(float* data, std::int64_t count, ReduceOp op, const std::string& what) = 0;
  virtual void all_gather(float* data, std::int64_t count, const std::string& what) = 0;
  virtual void broadcast(float* data, std::int64_t count, int root, const std::string& what) = 0;

  // Work of this communicator that it did not enqueue itself (a replayed recording) is done at `done`: a
  // peer that keeps it waiting is noticed as in a collective.
  virtual void watch(const std::string& /*what*/, const Event& /*done*/) {}

  // Blocking, on host memory. `what` names the operation in the message of a time-out.
  virtual void all_reduce_host(double* data, std::int64_t count, ReduceOp op, const std::string& what) = 0;
  virtual void broadcast_host(void* data, std::int64_t bytes, int root, const std::string& what) = 0;
  // out receives size() * bytes, rank after rank.
  virtual void all_gather_host(const void* in, std::int64_t bytes, void* out, const std::string& what) = 0;
  virtual void barrier(const std::string& what) = 0;
};

// Texts of any length from every rank, in rank order, on every rank.
std::vector<std::string> all_gather_text(Communicator& communicator, const std::string& text);

}  // namespace lockstep
