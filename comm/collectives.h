// Collectives on host memory, one implementation for each --allreduce. They block the caller and are called
// by one thread at a time; every rank makes the same calls.
//
// All work in place, and all leave the same bits on every rank.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/reduction.h"
#include "comm/transport.h"

namespace lockstep {

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual const char* name() const = 0;  // as --allreduce says it

  virtual void all_reduce(float* data, std::int64_t count, ReduceOp op) = 0;
  virtual void all_reduce(double* data, std::int64_t count, ReduceOp op) = 0;
  // Leaves chunk_of(count, ranks, rank) reduced on each rank, the rest of data undefined.
  virtual void reduce_scatter(float* data, std::int64_t count, ReduceOp op) = 0;
  // Each rank's chunk_of(count, ranks, rank) is spread to all.
  virtual void all_gather(float* data, std::int64_t count) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root) = 0;
};

// algorithms.h on a transport, which outlives it. What an algorithm has no form of its own for goes round the
// ring: reduce_scatter and all_gather of tree and doubling. Doubling broadcasts down the tree.
enum class Algorithm { ring, tree, doubling };
std::unique_ptr<Collectives> make_collectives(Algorithm algorithm, Transport& transport);

}  // namespace lockstep
