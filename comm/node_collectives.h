// Collectives between ranks that share memory (--allreduce shm).
//
// Each rank sums one chunk over all ranks, in rank order, and writes the sum to all of them: a reduce-scatter
// and an all-gather in one pass, between two barriers. Nothing is copied where the data lies in memory that
// the ranks share (reserve); other data goes through a stage in pieces.
//
// Several nodes: the sums go to the first rank of each node, these reduce them by messages, and every rank
// spreads one chunk of the result to its node.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "comm/node_memory.h"

namespace lockstep {

class NodeCollectives final : public Collectives {
 public:
  // Where this rank stands. The transports outlive the collectives.
  struct Place {
    std::vector<int> node_ranks;   // of this node, in order
    Transport* all = nullptr;      // between all ranks
    Transport* leaders = nullptr;  // between the first ranks of the nodes; null: this is none of them
    int nodes = 1;
  };
  // All ranks of the job call it. Null on all of them, and `why`, where memory cannot be shared.
  static std::unique_ptr<NodeCollectives> make(Communicator& job, Place place, std::string& why);

  // Memory for `bytes` more that need no copy. All ranks of the job call it; false on all of them, and `why`,
  // where it cannot be shared.
  bool reserve(Communicator& job, std::int64_t bytes, std::string& why);
  // `bytes` of what is reserved, aligned to 256, or null where too little is left. Ranks ask in the same
  // order: collectives find each other's data at the same place.
  void* take(std::int64_t bytes);
  bool holds(const void* data) const { return window_of(data) != nullptr; }

  const char* name() const override { return "shm"; }
  void all_reduce(float* data, std::int64_t count, ReduceOp op) override { reduce(data, count, op); }
  void all_reduce(double* data, std::int64_t count, ReduceOp op) override { reduce(data, count, op); }
  void reduce_scatter(float* data, std::int64_t count, ReduceOp op) override;
  void all_gather(float* data, std::int64_t count) override;
  void broadcast(void* data, std::int64_t bytes, int root) override;

 private:
  struct Window {
    std::unique_ptr<NodeMemory> memory;
    std::int64_t taken = 0;
  };
  NodeCollectives(Place place, int rank, std::unique_ptr<NodeMemory> stage);

  const Window* window_of(const void* data) const;
  // The same data of each rank of the node, or their stages.
  template <class T>
  std::vector<T*> peers(const T* data) const;
  template <class T>
  std::vector<T*> stages() const;

  template <class T>
  void reduce(T* data, std::int64_t count, ReduceOp op);
  template <class T>
  void reduce_shared(const std::vector<T*>& of_rank, std::int64_t count, ReduceOp op);
  template <class T>
  void reduce_between_nodes(T* data, std::int64_t count, ReduceOp op);

  Place place_;
  int own_;    // place of this rank in its node
  int ranks_;  // of the job
  std::unique_ptr<NodeMemory> stage_;
  NodeBarrier barrier_;  // in front of the stage
  std::vector<Window> windows_;
};

}  // namespace lockstep
