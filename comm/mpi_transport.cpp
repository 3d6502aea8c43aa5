#include "comm/mpi_transport.h"

#include "comm/mpi_check.h"

namespace lockstep {
namespace {

constexpr int kTag = 0;  // MPI keeps the messages of a pair of ranks in order

}  // namespace

MpiTransport::MpiTransport(MPI_Comm comm) : comm_(comm) {
  MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
  MPI_CHECK(MPI_Comm_size(comm_, &size_));
}

int MpiTransport::slot() {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(requests_.size()));
    requests_.push_back(MPI_REQUEST_NULL);
  }
  const int place = free_.back();
  free_.pop_back();
  return place;
}

int MpiTransport::send(int to, const void* data, std::int64_t bytes) {
  const int place = slot();
  MPI_CHECK(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, kTag, comm_,
                      &requests_[static_cast<std::size_t>(place)]));
  return place;
}

int MpiTransport::receive(int from, void* data, std::int64_t bytes) {
  const int place = slot();
  MPI_CHECK(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, kTag, comm_,
                      &requests_[static_cast<std::size_t>(place)]));
  return place;
}

void MpiTransport::wait(int request) {
  MPI_CHECK(MPI_Wait(&requests_[static_cast<std::size_t>(request)], MPI_STATUS_IGNORE));
  free_.push_back(request);
}

}  // namespace lockstep
