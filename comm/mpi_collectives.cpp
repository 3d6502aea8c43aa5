#include "comm/mpi_collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/mpi_check.h"

namespace lockstep {
namespace {

// Long messages travel in pieces that stay in a core's cache between the copy, the sum and the scaling.
// Measured with two ranks on two cores over 94 MB: 6.2 GB/s in pieces of 1 MiB, 3.4 in pieces of 8 MiB, 0.3
// in one.
constexpr std::int64_t kPieceBytes = 1 << 20;

MPI_Op mpi_op(ReduceOp op) {
  return op == ReduceOp::max ? MPI_MAX : MPI_SUM;
}

// The result has the same bits on every rank: MPI's algorithms compute each element on one rank and
// distribute it, or compute it on all ranks as the same tree of commutative sums. tests/comm/mpi holds every
// count to that.
class MpiCollectives final : public Collectives {
 public:
  explicit MpiCollectives(MPI_Comm comm) : comm_(comm) {
    MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
    MPI_CHECK(MPI_Comm_size(comm_, &size_));
  }
  const char* name() const override { return "mpi"; }

  void all_reduce(float* data, std::int64_t count, ReduceOp op) override {
    reduce(MPI_FLOAT, data, count, op);
  }
  void all_reduce(double* data, std::int64_t count, ReduceOp op) override {
    reduce(MPI_DOUBLE, data, count, op);
  }

  // In place MPI would move the result to the start of data.
  void reduce_scatter(float* data, std::int64_t count, ReduceOp op) override {
    const Chunks chunks(count, size_);
    const Range mine = chunk_of(count, size_, rank_);
    sums_.resize(static_cast<std::size_t>(mine.length) + 1);  // MPI wants an address even of nothing
    MPI_CHECK(MPI_Reduce_scatter(data, sums_.data(), chunks.lengths.data(), MPI_FLOAT, mpi_op(op), comm_));
    finish_reduction(op, sums_.data(), mine.length, size_);
    std::copy_n(sums_.data(), mine.length, data + mine.begin);
  }

  void all_gather(float* data, std::int64_t count) override {
    const Chunks chunks(count, size_);
    MPI_CHECK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, data, chunks.lengths.data(), chunks.begins.data(),
                             MPI_FLOAT, comm_));
  }

  void broadcast(void* data, std::int64_t bytes, int root) override {
    for (std::int64_t begin = 0; begin < bytes; begin += kPieceBytes) {
      MPI_CHECK(MPI_Bcast(static_cast<char*>(data) + begin,
                          static_cast<int>(std::min(kPieceBytes, bytes - begin)), MPI_BYTE, root, comm_));
    }
  }

 private:
  struct Chunks {
    Chunks(std::int64_t count, int ranks) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Range chunk = chunk_of(count, ranks, rank);
        begins.push_back(static_cast<int>(chunk.begin));
        lengths.push_back(static_cast<int>(chunk.length));
      }
    }
    std::vector<int> begins, lengths;
  };

  template <class T>
  void reduce(MPI_Datatype type, T* data, std::int64_t count, ReduceOp op) {
    constexpr auto kPiece = kPieceBytes / static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t begin = 0; begin < count; begin += kPiece) {
      const std::int64_t length = std::min(kPiece, count - begin);
      MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, data + begin, static_cast<int>(length), type, mpi_op(op), comm_));
      finish_reduction(op, data + begin, length, size_);  // while the piece is still in the cache
    }
  }

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::vector<float> sums_;
};

}  // namespace

std::unique_ptr<Collectives> make_mpi_collectives(MPI_Comm comm) {
  return std::make_unique<MpiCollectives>(comm);
}

}  // namespace lockstep
