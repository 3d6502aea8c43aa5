// Messages over MPI. Calls MPI on the thread that calls it.
#pragma once

#include <mpi.h>

#include <vector>

#include "comm/transport.h"

namespace lockstep {

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MPI_Comm comm);  // borrowed; its errors are returned

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int send(int to, const void* data, std::int64_t bytes) override;
  int receive(int from, void* data, std::int64_t bytes) override;
  void wait(int request) override;

 private:
  int slot();

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<int> free_;  // places in requests_
};

}  // namespace lockstep
