// A collective: which elements a right one leaves, and how long it takes.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "core/tensor.h"
#include "kernels/backend.h"

namespace lockstep::bench {

enum class Operation { all_reduce, reduce_scatter, all_gather, broadcast };
inline constexpr Operation kOperations[] = {Operation::all_reduce, Operation::reduce_scatter,
                                            Operation::all_gather, Operation::broadcast};
const char* name_of(Operation operation);

// Bus bandwidth over algorithm bandwidth, as nccl-tests define them: the part of the data that has to pass
// the link of each of n ranks. 2(n-1)/n for all_reduce, (n-1)/n for its halves, 1 for broadcast.
double bus_factor(Operation operation, int ranks);
const char* bus_formula(Operation operation);

// From the least to the largest number of bytes, each `factor` times the last.
std::vector<std::int64_t> sizes_between(std::int64_t least, std::int64_t largest, std::int64_t factor);

// The elements in so many bytes. The halves of all_reduce take a multiple of the ranks, one at least.
std::int64_t elements_of(Operation operation, std::int64_t bytes, int ranks);

struct Figures {
  std::int64_t wrong = 0;            // elements, on all ranks
  double us_median = 0, us_p99 = 0;  // of a call on the slowest rank
};

class Measure {
 public:
  // Up to `largest` bytes, reduced in memory of `memory`. All ranks make and call it alike.
  Measure(Communicator& communicator, Backend& backend, Allocator& memory, std::int64_t largest);

  // The check comes first, and with a wrong element the times stay 0. in_place: the data lies where the
  // result will; else it is copied there first, as part of the call. At most `samples` are taken, fewer where
  // they would take long.
  Figures run(Operation operation, std::int64_t count, bool in_place, std::int64_t warmup,
              std::int64_t samples);

 private:
  void enqueue(Operation operation, std::int64_t count, bool in_place);
  void copy_source(Operation operation, std::int64_t count);
  std::int64_t count_wrong(Operation operation, std::int64_t count, bool in_place);
  double slowest_seconds(Operation operation, std::int64_t count, bool in_place, std::int64_t calls);

  Communicator& communicator_;
  Backend& backend_;
  Buffer from_, to_, token_;
};

}  // namespace lockstep::bench
