// What kernel_bench prints and writes.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/kernels/call.h"
#include "bench/kernels/timing.h"

namespace lockstep::bench {

struct Row {
  std::string op, detail;
  std::int64_t calls = 0, samples = 0, checked_samples = 0;
  double seconds = 0, bytes = 0, flops = 0;
  // The least time that the peaks allow, over the time that it took; which peak that is.
  double share = 0;
  const char* bound = "";
};

// The peak that bounds the op is the one that takes longer: bytes at the copy peak, or flops at the
// product's.
Row row_of(const Call& call, std::int64_t checked_samples, double seconds, const Peaks& peaks);

// The lines of the table, with widths that fit the rows of `calls`.
class Table {
 public:
  explicit Table(const std::vector<Call>& calls);
  std::string head() const;
  std::string line(const Row& row) const;

 private:
  std::size_t op_width_ = 2, detail_width_ = 5;
};

std::string to_csv(const std::vector<Row>& rows);
nlohmann::ordered_json to_json(const std::vector<Row>& rows);

}  // namespace lockstep::bench
