// Memory that the ranks of one node share, and the barrier they meet at.
//
// A part is an anonymous file (memfd) that the other ranks of the node open through /proc/PID/fd. It has no
// name, so nothing is left over however a rank ends, and it does not lie in /dev/shm, which containers keep
// small. Its pages are taken at once: too little memory is an error here and not a SIGBUS in a later step.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace lockstep {

class NodeMemory {
 public:
  // `bytes` of each rank of the node, zero-filled, mapped by all of them. Every rank of the job calls it;
  // node_ranks are those of this node, in order. Null on all ranks where one cannot: `why` then names it.
  static std::unique_ptr<NodeMemory> make(Communicator& job, const std::vector<int>& node_ranks,
                                          std::int64_t bytes, std::string& why);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  // By place in node_ranks.
  const std::vector<std::byte*>& parts() const { return parts_; }
  std::byte* own() const { return parts_[own_]; }
  std::int64_t bytes() const { return bytes_; }

 private:
  NodeMemory(std::size_t own, std::int64_t bytes) : own_(own), bytes_(bytes) {}
  std::size_t own_;
  std::int64_t bytes_;
  std::vector<std::byte*> parts_;
};

// All ranks of the node get past wait() when the last one has come. A rank that waits first spins, then gives
// its core to others, then sleeps: the last to come may be in a long computation, on the same core.
class NodeBarrier {
 public:
  // In memory that all of them see, zero-filled.
  struct Shared {
    alignas(64) std::atomic<std::uint32_t> arrived;
    alignas(64) std::atomic<std::uint32_t> round;
    std::atomic<std::uint32_t> asleep;
  };
  NodeBarrier(Shared* shared, int ranks) : shared_(shared), ranks_(static_cast<std::uint32_t>(ranks)) {}
  void wait();

 private:
  Shared* shared_;
  std::uint32_t ranks_;
};

}  // namespace lockstep
