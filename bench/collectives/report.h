// What allreduce_bench prints and writes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/collectives/measure.h"

namespace lockstep::bench {

struct CollectiveRow {
  Operation operation = Operation::all_reduce;
  std::string algorithm;
  int ranks = 1;
  std::int64_t bytes = 0;
  bool in_place = true;
  std::string buffer;  // window: memory that the ranks share; heap: each rank's own
  Figures figures;
};

// Lines of one operation and algorithm: two rows a line, in place first, as nccl-tests print them.
std::string table_head(const CollectiveRow& row);
std::string table_line(const CollectiveRow& in_place, const CollectiveRow& out_of_place);

// Bandwidths in 1e9 bytes a second; none of a result that is wrong, and no bus bandwidth of one rank, which
// has no bus.
std::string to_csv(const std::vector<CollectiveRow>& rows);
nlohmann::ordered_json to_json(const std::vector<CollectiveRow>& rows);

}  // namespace lockstep::bench
