// The communicator of tensors in host memory, over MPI. All its collectives run on one worker thread, in the
// order in which they were submitted: MPI's, and those of --allreduce.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "comm/collectives.h"
#include "comm/communicator.h"
#include "comm/mpi_transport.h"
#include "comm/node_collectives.h"
#include "comm/watchdog.h"

namespace lockstep {

class MpiCommunicator final : public Communicator {
 public:
  // Until use_all_reduce(), MPI's own collectives. The watchdog is borrowed.
  MpiCommunicator(MPI_Comm comm, Watchdog& watchdog);
  ~MpiCommunicator() override;

  // All ranks call it with the same name, one of --allreduce; "auto" is shm. Where ranks of a node cannot
  // share memory, shm is MPI's own, and description() says why. No collective may be under way.
  void use_all_reduce(const std::string& name);

  const char* name() const override { return collectives_->name(); }
  std::string description() const override;
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return static_cast<int>(node_ranks_.size()); }
  Stream& stream() override { return worker_; }
  Allocator& allocator() override { return allocator_; }
  bool reserve(std::int64_t bytes) override;

  void all_reduce(float* data, std::int64_t count, ReduceOp op, const std::string& what) override;
  void reduce_scatter(float* data, std::int64_t count, ReduceOp op, const std::string& what) override;
  void all_gather(float* data, std::int64_t count, const std::string& what) override;
  void broadcast(float* data, std::int64_t count, int root, const std::string& what) override;
  void all_reduce_host(double* data, std::int64_t count, ReduceOp op, const std::string& what) override;
  void broadcast_host(void* data, std::int64_t bytes, int root, const std::string& what) override;
  void all_gather_host(const void* in, std::int64_t bytes, void* out, const std::string& what) override;
  void barrier(const std::string& what) override;

  // Held while the worker is inside MPI. Whoever gets it may call MPI_Abort.
  std::mutex& mpi_mutex() { return mpi_mutex_; }

 private:
  // What is reserved, then plain memory.
  class Memory final : public Allocator {
   public:
    explicit Memory(MpiCommunicator& owner) : owner_(owner) {}
    void* allocate(std::int64_t bytes) override;
    void deallocate(void* data, std::int64_t bytes) noexcept override;

   private:
    MpiCommunicator& owner_;
    HostAllocator plain_;
  };

  // Runs body on the worker, under the watchdog.
  void submit(const std::string& what, std::function<void()> body);
  void submit_and_wait(const std::string& what, std::function<void()> body);

  MPI_Comm comm_, leaders_comm_ = MPI_COMM_NULL;
  Watchdog& watchdog_;
  int rank_ = 0, size_ = 1, local_rank_ = 0, nodes_ = 1;
  std::vector<int> node_ranks_;  // of this node, in order
  Memory allocator_{*this};
  std::unique_ptr<MpiTransport> transport_, leaders_;
  std::unique_ptr<Collectives> by_messages_;
  std::unique_ptr<NodeCollectives> shared_;  // made when they are first asked for
  std::string not_shared_;                   // why memory is not shared although it was asked for
  Collectives* collectives_;                 // those in use
  std::mutex mpi_mutex_;
  WorkerStream worker_;  // last: its destructor runs what is queued
};

}  // namespace lockstep
