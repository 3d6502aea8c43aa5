#include "comm/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "comm/mpi_check.h"
#include "comm/mpi_collectives.h"
#include "core/error.h"

namespace lockstep {

namespace detail {

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  fail(ExitCode::peer, "MPI failed in {}: {}. Look for the first error of another rank.", call, text.data());
}

}  // namespace detail

// The nodes: ranks that can share memory, as MPI sees it. Their first ranks talk to each other.
MpiCommunicator::MpiCommunicator(MPI_Comm comm, Watchdog& watchdog)
    : comm_(comm),
      watchdog_(watchdog),
      transport_(std::make_unique<MpiTransport>(comm)),
      by_messages_(make_mpi_collectives(comm)),
      collectives_(by_messages_.get()),
      worker_("ls-comm") {
  MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
  MPI_CHECK(MPI_Comm_size(comm_, &size_));
  MPI_Comm node = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node));
  int local_size = 1;
  MPI_CHECK(MPI_Comm_rank(node, &local_rank_));
  MPI_CHECK(MPI_Comm_size(node, &local_size));
  node_ranks_.resize(static_cast<std::size_t>(local_size));
  MPI_CHECK(MPI_Allgather(&rank_, 1, MPI_INT, node_ranks_.data(), 1, MPI_INT, node));
  MPI_CHECK(MPI_Comm_free(&node));
  MPI_CHECK(MPI_Comm_split(comm_, local_rank_ == 0 ? 0 : MPI_UNDEFINED, rank_, &leaders_comm_));
  if (leaders_comm_ != MPI_COMM_NULL) leaders_ = std::make_unique<MpiTransport>(leaders_comm_);
  int leader = local_rank_ == 0 ? 1 : 0;
  MPI_CHECK(MPI_Allreduce(&leader, &nodes_, 1, MPI_INT, MPI_SUM, comm_));
}

MpiCommunicator::~MpiCommunicator() {
  try {
    worker_.synchronize();
    if (leaders_comm_ != MPI_COMM_NULL) MPI_CHECK(MPI_Comm_free(&leaders_comm_));
  } catch (const std::exception&) {
    // A collective failed; whoever waited for it has got the error.
  }
}

void MpiCommunicator::use_all_reduce(const std::string& name) {
  if (name == "auto" || name == "shm") {
    if (!shared_) {
      shared_ =
          NodeCollectives::make(*this, {node_ranks_, transport_.get(), leaders_.get(), nodes_}, not_shared_);
    }
    if (shared_) {
      collectives_ = shared_.get();
      return;
    }
  }
  by_messages_ = name == "ring"       ? make_collectives(Algorithm::ring, *transport_)
                 : name == "tree"     ? make_collectives(Algorithm::tree, *transport_)
                 : name == "doubling" ? make_collectives(Algorithm::doubling, *transport_)
                                      : make_mpi_collectives(comm_);
  collectives_ = by_messages_.get();
}

std::string MpiCommunicator::description() const {
  std::string text = nodes_ > 1 && collectives_ == shared_.get()
                         ? fmt::format("shm in {} nodes, messages between them", nodes_)
                         : collectives_->name();
  if (!not_shared_.empty()) text += fmt::format(" (without shared memory: {})", not_shared_);
  return text;
}

bool MpiCommunicator::reserve(std::int64_t bytes) {
  return collectives_ == shared_.get() && shared_->reserve(*this, bytes, not_shared_);
}

void* MpiCommunicator::Memory::allocate(std::int64_t bytes) {
  if (owner_.shared_) {
    if (void* data = owner_.shared_->take(bytes)) return data;
  }
  return plain_.allocate(bytes);
}

void MpiCommunicator::Memory::deallocate(void* data, std::int64_t bytes) noexcept {
  if (!owner_.shared_ || !owner_.shared_->holds(data)) plain_.deallocate(data, bytes);
}

// The guard is the first thing that a task makes: the deadline covers the wait for the peers, not the wait
// for a turn.
void MpiCommunicator::submit(const std::string& what, std::function<void()> body) {
  worker_.submit([this, what, run = std::move(body)] {
    const Watchdog::Guard guard(watchdog_, what);
    const std::lock_guard lock(mpi_mutex_);
    run();
  });
}

// A collective of the host is one more task of the same queue, so all ranks see one order of collectives.
void MpiCommunicator::submit_and_wait(const std::string& what, std::function<void()> body) {
  submit(what, std::move(body));
  worker_.synchronize();
}

void MpiCommunicator::all_reduce(float* data, std::int64_t count, ReduceOp op, const std::string& what) {
  submit(what, [=, this] { collectives_->all_reduce(data, count, op); });
}

void MpiCommunicator::reduce_scatter(float* data, std::int64_t count, ReduceOp op, const std::string& what) {
  submit(what, [=, this] { collectives_->reduce_scatter(data, count, op); });
}

void MpiCommunicator::all_gather(float* data, std::int64_t count, const std::string& what) {
  submit(what, [=, this] { collectives_->all_gather(data, count); });
}

void MpiCommunicator::broadcast(float* data, std::int64_t count, int root, const std::string& what) {
  submit(what, [=, this] {
    collectives_->broadcast(data, count * static_cast<std::int64_t>(sizeof(float)), root);
  });
}

void MpiCommunicator::all_reduce_host(double* data, std::int64_t count, ReduceOp op,
                                      const std::string& what) {
  submit_and_wait(what, [=, this] { collectives_->all_reduce(data, count, op); });
}

void MpiCommunicator::broadcast_host(void* data, std::int64_t bytes, int root, const std::string& what) {
  submit_and_wait(what, [=, this] { collectives_->broadcast(data, bytes, root); });
}

void MpiCommunicator::all_gather_host(const void* in, std::int64_t bytes, void* out,
                                      const std::string& what) {
  LOCKSTEP_CHECK(bytes <= INT_MAX, "all_gather of {} bytes a rank", bytes);
  const int count = static_cast<int>(bytes);
  submit_and_wait(what,
                  [=, this] { MPI_CHECK(MPI_Allgather(in, count, MPI_BYTE, out, count, MPI_BYTE, comm_)); });
}

void MpiCommunicator::barrier(const std::string& what) {
  submit_and_wait(what, [this] { MPI_CHECK(MPI_Barrier(comm_)); });
}

}  // namespace lockstep
