#include "bench/kernels/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::bench {

Row row_of(const Call& call, std::int64_t checked_samples, double seconds, const Peaks& peaks) {
  Row row{call.op, call.detail, call.calls, call.samples, checked_samples, seconds, call.bytes(), call.flops};
  const double moving = row.bytes / peaks.bytes_per_second, computing = row.flops / peaks.flops_per_second;
  row.share = std::max(moving, computing) / seconds;
  row.bound = computing > moving ? "fma" : "copy";
  return row;
}

Table::Table(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    op_width_ = std::max(op_width_, std::string(call.op).size());
    detail_width_ = std::max(detail_width_, call.detail.size());
  }
}

std::string Table::head() const {
  return fmt::format("{:<{}}  {:<{}}  {:>5}  {:>8}  {:>10}  {:>8}  {:>9}  {:>12}\n", "op", op_width_, "shape",
                     detail_width_, "calls", "checked", "ms", "GB/s", "GFLOP/s", "of peak");
}

std::string Table::line(const Row& row) const {
  const std::string flops = row.flops > 0 ? fmt::format("{:.1f}", row.flops / row.seconds * 1e-9) : "-";
  return fmt::format("{:<{}}  {:<{}}  {:>5}  {:>8}  {:>10.4f}  {:>8.2f}  {:>9}  {:>6.1f}% {:<4}\n", row.op,
                     op_width_, row.detail, detail_width_, row.calls,
                     fmt::format("{}/{}", row.checked_samples, row.samples), row.seconds * 1e3,
                     row.bytes / row.seconds * 1e-9, flops, row.share * 100, row.bound);
}

std::string to_csv(const std::vector<Row>& rows) {
  std::string text =
      "op,shape,calls,samples,checked_samples,ms,bytes,flops,gb_per_s,gflop_per_s,bound,share\n";
  for (const Row& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{:.0f},{:.0f},{},{},{},{}\n", row.op, row.detail, row.calls,
                        row.samples, row.checked_samples, row.seconds * 1e3, row.bytes, row.flops,
                        row.bytes / row.seconds * 1e-9, row.flops / row.seconds * 1e-9, row.bound, row.share);
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    all.push_back({{"op", row.op},
                   {"shape", row.detail},
                   {"calls", row.calls},
                   {"samples", row.samples},
                   {"checked_samples", row.checked_samples},
                   {"ms", row.seconds * 1e3},
                   {"bytes", row.bytes},
                   {"flops", row.flops},
                   {"gb_per_s", row.bytes / row.seconds * 1e-9},
                   {"gflop_per_s", row.flops / row.seconds * 1e-9},
                   {"bound", row.bound},
                   {"share", row.share}});
  }
  return all;
}

}  // namespace lockstep::bench
