// The process and its place in the job: MPI_Init, ranks, abort. One process without a launcher needs no MPI
// at all.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "core/allocator.h"
#include "core/error.h"

namespace lockstep {

// What the launcher's environment says before MPI_Init: {0, 1, ""} where there is none. Order: Open MPI, PMI,
// Slurm.
struct LaunchInfo {
  int rank = 0;
  int size = 1;
  std::string launcher;  // "Open MPI", "Slurm", ...; empty: started by hand
};
LaunchInfo launch_info();

class Process {
 public:
  // Initialises MPI where a launcher started more than one process. What all ranks find alike is an
  // AgreedError: peer where the launcher says N > 1 processes and MPI sees 1 (a launcher of another MPI),
  // naming the command to use; usage where this build has no MPI; peer where build_id(), exchanged right
  // after MPI_Init, differs, naming the rank and host that run another binary.
  explicit Process(std::chrono::seconds timeout);
  ~Process();  // MPI_Finalize; never throws

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks of this host (MPI_Comm_split_type)
  int local_size() const;

  // The collectives of this job. For tensors in host memory; its comm stream is a worker thread (inline for
  // one process).
  Communicator& communicator();
  // From now on for tensors on this rank's CUDA device. All ranks call it together; errors as of
  // make_cuda_communicator().
  void use_cuda(int device);
  // From now on host tensors are reduced this way: --allreduce ring, tree, doubling, shm, mpi or auto. All
  // ranks call it together, with the same name.
  void use_all_reduce(const std::string& name);

  // Ends the whole job with this code, from any thread, without waiting for anybody. The message is already
  // printed.
  [[noreturn]] void abort(ExitCode code);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// For --version: "Open MPI 4.1.4", "not built in".
std::string mpi_library();

}  // namespace lockstep
