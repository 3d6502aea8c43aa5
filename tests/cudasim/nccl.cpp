// NCCL's double: collectives between threads of one process and between processes of one host.
//
// The ranks of a communicator meet in a shared-memory object that the unique id names. Each collective first
// compares what the ranks called: another operation, count, type or root than the others' is an error on
// every rank, told on stderr and by ncclCommGetAsyncError, where the real library hangs or mixes up data.
// Then the data travel in pieces, and every rank adds them up in rank order: the same bits everywhere.
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "cudasim/state.h"

namespace {

constexpr int kMaxRanks = 16;
constexpr std::size_t kPiece = 256 << 10;  // bytes

struct Call {
  char name[24];
  std::uint64_t number, count;
  int type, operation, root;
};

// Zeros are a valid beginning: whoever comes first makes it.
struct Shared {
  std::atomic<std::uint64_t> arrived;  // at meetings, all ranks together
  std::atomic<int> attached, failed;   // failed: an ncclResult_t
  std::atomic<int> pid[kMaxRanks];
  int device[kMaxRanks];
  Call calls[kMaxRanks];
  alignas(64) char piece[kMaxRanks][kPiece];
};

std::string& last_error() {
  static std::string* text = new std::string;
  return *text;
}
std::mutex& last_error_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

struct ncclComm {
  Shared* shared = nullptr;
  int rank = 0, ranks = 1;
  std::uint64_t meetings = 0, calls = 0;
  std::atomic<bool> aborted = false;  // and so gone, for the program
};

namespace {

void set_last_error(const std::string& text) {
  const std::lock_guard lock(last_error_mutex());
  last_error() = text;
  std::fprintf(stderr, "cudasim: %s\n", text.c_str());
}

ncclResult_t fail(ncclComm& comm, ncclResult_t result, const std::string& text) {
  int none = ncclSuccess;
  if (comm.shared->failed.compare_exchange_strong(none, result)) set_last_error(text);
  return static_cast<ncclResult_t>(comm.shared->failed.load());
}

bool is_alive(int pid) {
  return pid == 0 || kill(pid, 0) == 0;
}

// Returns when all ranks are here. Asleep, not spinning: the ranks may have one core.
ncclResult_t meet(ncclComm& comm) {
  using namespace std::chrono_literals;
  Shared& shared = *comm.shared;
  const std::uint64_t all = ++comm.meetings * static_cast<std::uint64_t>(comm.ranks);
  ++shared.arrived;
  for (int looks = 0; shared.arrived < all; ++looks) {
    if (const int failed = shared.failed) return static_cast<ncclResult_t>(failed);
    std::this_thread::sleep_for(looks < 20 ? 20us : 200us);
    if (looks % 1000 != 999) continue;
    for (int rank = 0; rank < comm.ranks; ++rank) {
      if (!is_alive(shared.pid[rank]))
        return fail(comm, ncclRemoteError, "rank " + std::to_string(rank) + " has ended");
    }
  }
  return static_cast<ncclResult_t>(shared.failed.load());
}

std::string text_of(const Call& call) {
  return std::string(call.name) + " of " + std::to_string(call.count) + " (type " +
         std::to_string(call.type) + ", operation " + std::to_string(call.operation) + ", root " +
         std::to_string(call.root) + ")";
}

ncclResult_t compare(ncclComm& comm, const Call& mine) {
  comm.shared->calls[comm.rank] = mine;
  if (const ncclResult_t result = meet(comm)) return result;
  for (int rank = 0; rank < comm.ranks; ++rank) {
    const Call& theirs = comm.shared->calls[rank];
    if (std::memcmp(&theirs, &comm.shared->calls[0], sizeof(Call)) == 0) continue;
    return fail(comm, ncclInvalidUsage,
                "collective " + std::to_string(mine.number) + " of the ranks differs: rank " +
                    std::to_string(rank) + " calls " + text_of(theirs) + ", rank 0 " +
                    text_of(comm.shared->calls[0]));
  }
  return ncclSuccess;
}

// Of the pieces, from the byte `first` on.
void reduce(const ncclComm& comm, ncclRedOp_t op, std::size_t first, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) {
    float result = reinterpret_cast<const float*>(comm.shared->piece[0] + first)[i];
    for (int rank = 1; rank < comm.ranks; ++rank) {
      const float other = reinterpret_cast<const float*>(comm.shared->piece[rank] + first)[i];
      result = op == ncclMax ? std::max(result, other) : result + other;
    }
    to[i] = op == ncclAvg ? result * (1.0f / static_cast<float>(comm.ranks)) : result;
  }
}

// take(bytes, offset) writes this rank's part of the result from the pieces.
template <class Take>
void exchange(ncclComm& comm, const Call& call, const char* from, std::size_t bytes, const Take& take) {
  if (compare(comm, call) != ncclSuccess) return;
  for (std::size_t offset = 0; offset < bytes; offset += kPiece) {
    const std::size_t length = std::min(kPiece, bytes - offset);
    std::memcpy(comm.shared->piece[comm.rank], from + offset, length);
    if (meet(comm) != ncclSuccess) return;
    take(offset, length);
    if (meet(comm) != ncclSuccess) return;
  }
}

Call make_call(ncclComm& comm, const char* name, std::size_t count, int type, int operation, int root) {
  Call call = {};
  std::snprintf(call.name, sizeof call.name, "%s", name);
  call.number = ++comm.calls;
  call.count = count;
  call.type = type;
  call.operation = operation;
  call.root = root;
  return call;
}

void refuse_aborted(const ncclComm& comm, const char* call) {
  if (!comm.aborted) return;
  std::fprintf(stderr, "cudasim: %s on a communicator that was aborted\n", call);
  std::abort();
}

// What the configuration orders for the call, as an ncclResult_t.
ncclResult_t entry(const char* call) {
  const cudasim::Lock lock(cudasim::state().mutex);
  return static_cast<ncclResult_t>(cudasim::entry(lock, call));
}

bool on_device(const void* data, std::size_t bytes) {
  return cudasim::is_device_memory(data, static_cast<std::int64_t>(bytes));
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made = 0;
  if (const ncclResult_t ordered = entry("ncclGetUniqueId")) return ordered;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/cudasim-nccl-%d-%d", static_cast<int>(getpid()), ++made);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* /*config*/) {
  if (const ncclResult_t ordered = entry("ncclCommInitRankConfig")) return ordered;
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  const int file = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return ncclSystemError;
  void* mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return ncclSystemError;
  auto made = std::make_unique<ncclComm>();
  made->shared = static_cast<Shared*>(mapped);
  made->rank = rank;
  made->ranks = ranks;
  made->shared->pid[rank] = getpid();
  made->shared->device[rank] = cudasim::current_device();
  ncclResult_t result = meet(*made);
  if (rank == 0) shm_unlink(id.internal);
  // As the real one: two ranks on one device of this host are refused.
  for (int other = 0; other < ranks && result == ncclSuccess; ++other) {
    if (other != rank && made->shared->device[other] == made->shared->device[rank])
      result = fail(*made, ncclInvalidUsage, "two ranks have one device");
  }
  if (result == ncclSuccess) result = meet(*made);
  if (result != ncclSuccess) return result;
  *comm = made.release();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  refuse_aborted(*comm, "ncclAllReduce");
  if (const ncclResult_t ordered = entry("ncclAllReduce")) return ordered;
  const std::size_t bytes = count * sizeof(float);
  if (type != ncclFloat || !on_device(from, bytes) || !on_device(to, bytes)) return ncclInvalidArgument;
  cudasim::enqueue(stream, [=] {
    exchange(*comm, make_call(*comm, "ncclAllReduce", count, type, op, -1), static_cast<const char*>(from),
             bytes, [&](std::size_t offset, std::size_t length) {
               reduce(*comm, op, 0, length / sizeof(float),
                      reinterpret_cast<float*>(static_cast<char*>(to) + offset));
             });
  });
  return ncclSuccess;
}

// count is that of one rank's part, as everywhere in NCCL.
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  refuse_aborted(*comm, "ncclReduceScatter");
  if (const ncclResult_t ordered = entry("ncclReduceScatter")) return ordered;
  const std::size_t part = count * sizeof(float), bytes = part * static_cast<std::size_t>(comm->ranks);
  if (type != ncclFloat || !on_device(from, bytes) || !on_device(to, part)) return ncclInvalidArgument;
  cudasim::enqueue(stream, [=] {
    const std::size_t begin = part * static_cast<std::size_t>(comm->rank), end = begin + part;
    exchange(*comm, make_call(*comm, "ncclReduceScatter", count, type, op, -1),
             static_cast<const char*>(from), bytes, [&](std::size_t offset, std::size_t length) {
               const std::size_t first = std::max(offset, begin), last = std::min(offset + length, end);
               if (first >= last) return;
               reduce(*comm, op, first - offset, (last - first) / sizeof(float),
                      reinterpret_cast<float*>(static_cast<char*>(to) + (first - begin)));
             });
  });
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  refuse_aborted(*comm, "ncclAllGather");
  if (const ncclResult_t ordered = entry("ncclAllGather")) return ordered;
  const std::size_t part = count * sizeof(float), ranks = static_cast<std::size_t>(comm->ranks);
  if (type != ncclFloat || !on_device(from, part) || !on_device(to, part * ranks)) return ncclInvalidArgument;
  cudasim::enqueue(stream, [=] {
    exchange(*comm, make_call(*comm, "ncclAllGather", count, type, -1, -1), static_cast<const char*>(from),
             part, [&](std::size_t offset, std::size_t length) {
               for (std::size_t rank = 0; rank < ranks; ++rank)
                 std::memcpy(static_cast<char*>(to) + rank * part + offset, comm->shared->piece[rank],
                             length);
             });
  });
  return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t ordered = entry("ncclBroadcast")) return ordered;
  const std::size_t bytes = count * sizeof(float);
  if (type != ncclFloat || root < 0 || root >= comm->ranks || !on_device(to, bytes))
    return ncclInvalidArgument;
  cudasim::enqueue(stream, [=] {
    const void* own = comm->rank == root ? from : to;
    exchange(*comm, make_call(*comm, "ncclBroadcast", count, type, -1, root), static_cast<const char*>(own),
             bytes, [&](std::size_t offset, std::size_t length) {
               std::memcpy(static_cast<char*>(to) + offset, comm->shared->piece[root], length);
             });
  });
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  refuse_aborted(*comm, "ncclCommGetAsyncError");
  *error = static_cast<ncclResult_t>(comm->shared->failed.load());
  return ncclSuccess;
}

// Ends what waits, here and at the peers.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  int none = ncclSuccess;
  comm->shared->failed.compare_exchange_strong(none, ncclRemoteError);
  comm->aborted = true;
  return ncclSuccess;  // a collective may still be leaving: the memory stays
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  munmap(comm->shared, sizeof(Shared));
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "an error of the simulated library";
  }
}

const char* ncclGetLastError(ncclComm_t /*comm*/) {
  const std::lock_guard lock(last_error_mutex());
  thread_local std::string copy;
  copy = last_error();
  return copy.c_str();
}

}  // extern "C"
