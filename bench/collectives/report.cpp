#include "bench/collectives/report.h"

#include <fmt/format.h>

#include <optional>

namespace lockstep::bench {
namespace {

std::optional<double> algorithm_bandwidth(const CollectiveRow& row) {
  if (row.figures.us_median <= 0) return {};
  return static_cast<double>(row.bytes) / row.figures.us_median * 1e-3;
}

std::optional<double> bus_bandwidth(const CollectiveRow& row) {
  const auto bandwidth = algorithm_bandwidth(row);
  if (!bandwidth || row.ranks == 1) return {};
  return *bandwidth * bus_factor(row.operation, row.ranks);
}

std::string cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

std::string half(const CollectiveRow& row) {
  return fmt::format(" | {:>10.1f} {:>10.1f} {:>8} {:>8} {:>6}", row.figures.us_median, row.figures.us_p99,
                     cell(algorithm_bandwidth(row)), cell(bus_bandwidth(row)), row.figures.wrong);
}

}  // namespace

std::string table_head(const CollectiveRow& row) {
  const std::string titles =
      fmt::format(" | {:>10} {:>10} {:>8} {:>8} {:>6}", "us", "p99 us", "algbw", "busbw", "#wrong");
  std::string text =
      fmt::format("\n# {} by {}, {} rank{}, buffer {}: algbw = bytes / us median, GB/s; ",
                  name_of(row.operation), row.algorithm, row.ranks, row.ranks == 1 ? "" : "s", row.buffer);
  text += row.ranks == 1 ? "one rank has no bus: no busbw\n"
                         : fmt::format("busbw = algbw * {}, n = {}\n", bus_formula(row.operation), row.ranks);
  return text + fmt::format("# {:>10}{:<47}{:<47}\n", "", " | in place", " | out of place: a copy more") +
         fmt::format("# {:>10}{}{}\n", "bytes", titles, titles);
}

std::string table_line(const CollectiveRow& in_place, const CollectiveRow& out_of_place) {
  return fmt::format("  {:>10}{}{}\n", in_place.bytes, half(in_place), half(out_of_place));
}

nlohmann::ordered_json to_json(const std::vector<CollectiveRow>& rows) {
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const CollectiveRow& row : rows) {
    all.push_back({{"operation", name_of(row.operation)},
                   {"algorithm", row.algorithm},
                   {"ranks", row.ranks},
                   {"bytes", row.bytes},
                   {"in_place", row.in_place},
                   {"buffer", row.buffer},
                   {"us_median", row.figures.us_median},
                   {"us_p99", row.figures.us_p99},
                   {"algbw_gbps", number(algorithm_bandwidth(row))},
                   {"busbw_gbps", number(bus_bandwidth(row))},
                   {"wrong", row.figures.wrong}});
  }
  return all;
}

std::string to_csv(const std::vector<CollectiveRow>& rows) {
  std::string head, text;
  for (const auto& row : to_json(rows)) {
    const bool first = head.empty();
    std::string line;
    for (const auto& [key, value] : row.items()) {
      if (first) head += (head.empty() ? "" : ",") + key;
      const std::string cell = value.is_string() ? value.get<std::string>() : value.dump();
      line += (line.empty() ? "" : ",") + (value.is_null() ? "" : cell);
    }
    text += line + '\n';
  }
  return head + '\n' + text;
}

}  // namespace lockstep::bench
