// The communicator over MPI. All its calls run on one worker thread, in the order in which they were
// submitted.
#pragma once

#include <mpi.h>

#include <functional>
#include <mutex>

#include "comm/communicator.h"
#include "comm/watchdog.h"

namespace lockstep {

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm comm, Allocator& allocator, Watchdog& watchdog);

  const char* name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Stream& stream() override { return worker_; }
  Allocator& allocator() override { return allocator_; }

  void all_reduce(float* data, std::int64_t count, ReduceOp op, const std::string& what) override;
  void all_reduce_host(double* data, std::int64_t count, ReduceOp op, const std::string& what) override;
  void broadcast_host(void* data, std::int64_t bytes, int root, const std::string& what) override;
  void all_gather_host(const void* in, std::int64_t bytes, void* out, const std::string& what) override;
  void barrier(const std::string& what) override;

  // Held while the worker is inside MPI. Whoever gets it may call MPI_Abort.
  std::mutex& mpi_mutex() { return mpi_mutex_; }

 private:
  // Runs body on the worker, under the watchdog.
  void submit(const std::string& what, std::function<void()> body);
  void submit_and_wait(const std::string& what, std::function<void()> body);

  MPI_Comm comm_;
  Allocator& allocator_;
  Watchdog& watchdog_;
  int rank_ = 0;
  int size_ = 1;
  std::mutex mpi_mutex_;
  WorkerStream worker_;  // last: its destructor runs what is queued
};

namespace detail {
void check_mpi(int result, const char* call);
}

}  // namespace lockstep

// Throws Error(peer) with MPI's own text unless the call returns MPI_SUCCESS.
#define MPI_CHECK(call) ::lockstep::detail::check_mpi((call), #call)
