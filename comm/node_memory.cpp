#include "comm/node_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace lockstep {
namespace {

// What a rank tells the others about its part. error: the errno of what it could not do, in `call`.
struct Offer {
  std::int64_t pid = 0;
  std::int32_t file = -1, error = 0;
  char call[24] = {};

  void failed(const char* what) {
    error = errno;
    std::strncpy(call, what, sizeof call - 1);
  }
};

std::byte* map(int file, std::int64_t bytes) {
  void* data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, file, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

std::vector<Offer> exchange(Communicator& job, const Offer& mine) {
  std::vector<Offer> all(static_cast<std::size_t>(job.size()));
  job.all_gather_host(&mine, sizeof mine, all.data(), "shared memory of the node");
  return all;
}

std::string first_failure(const std::vector<Offer>& offers, std::int64_t bytes) {
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].error == 0) continue;
    return fmt::format("rank {} cannot share {} MiB with its node ({}: {})", rank,
                       (bytes + (1 << 20) - 1) >> 20, offers[rank].call, std::strerror(offers[rank].error));
  }
  return "";
}

}  // namespace

std::unique_ptr<NodeMemory> NodeMemory::make(Communicator& job, const std::vector<int>& node_ranks,
                                             std::int64_t bytes, std::string& why) {
  const auto own = static_cast<std::size_t>(std::find(node_ranks.begin(), node_ranks.end(), job.rank()) -
                                            node_ranks.begin());
  std::unique_ptr<NodeMemory> memory(new NodeMemory(own, bytes));
  memory->parts_.resize(node_ranks.size());

  Offer mine;
  mine.pid = getpid();
  mine.file = memfd_create("lockstep", MFD_CLOEXEC);
  if (mine.file < 0) {
    mine.failed("memfd_create");
  } else if (ftruncate(mine.file, bytes) != 0) {
    mine.failed("ftruncate");
  } else if (fallocate(mine.file, 0, 0, bytes) != 0) {
    mine.failed("fallocate");
  } else if ((memory->parts_[own] = map(mine.file, bytes)) == nullptr) {
    mine.failed("mmap");
  }
  std::vector<Offer> offers = exchange(job, mine);
  why = first_failure(offers, bytes);
  if (why.empty()) {
    for (std::size_t i = 0; i < node_ranks.size() && mine.error == 0; ++i) {
      if (i == own) continue;
      const Offer& peer = offers[static_cast<std::size_t>(node_ranks[i])];
      const std::string path = fmt::format("/proc/{}/fd/{}", peer.pid, peer.file);
      const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (file < 0) {
        mine.failed("open of /proc/PID/fd");
      } else if ((memory->parts_[i] = map(file, bytes)) == nullptr) {
        mine.failed("mmap of a peer's");
      }
      if (file >= 0) close(file);
    }
    // Also the sign that all have opened each other's files.
    why = first_failure(exchange(job, mine), bytes);
  }
  if (mine.file >= 0) close(mine.file);
  return why.empty() ? std::move(memory) : nullptr;
}

NodeMemory::~NodeMemory() {
  for (std::byte* part : parts_) {
    if (part) munmap(part, static_cast<std::size_t>(bytes_));
  }
}

// Sequentially consistent throughout: the last rank must see that one sleeps, or that one the new round.
void NodeBarrier::wait() {
  constexpr int kSpins = 500, kYields = 100;
  const std::uint32_t round = shared_->round.load();
  if (shared_->arrived.fetch_add(1) + 1 == ranks_) {
    shared_->arrived.store(0);
    shared_->round.store(round + 1);
    if (shared_->asleep.load() > 0)
      syscall(SYS_futex, &shared_->round, FUTEX_WAKE, static_cast<int>(ranks_), nullptr, nullptr, 0);
    return;
  }
  for (int i = 0; i < kSpins + kYields; ++i) {
    if (shared_->round.load() != round) return;
    i < kSpins ? __builtin_ia32_pause() : static_cast<void>(sched_yield());
  }
  shared_->asleep.fetch_add(1);
  while (shared_->round.load() == round)
    syscall(SYS_futex, &shared_->round, FUTEX_WAIT, round, nullptr, nullptr, 0);
  shared_->asleep.fetch_sub(1);
}

}  // namespace lockstep
