// Comparison of tensors read back as doubles: a value passes when |actual - expected| <= abs + rel *
// |expected|.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::test {

struct Tolerance {
  double abs = 0;
  double rel = 0;
};

constexpr Tolerance kExact{};
// Half the distance from 1 to the next f32: the largest relative error of one rounding to nearest.
constexpr double kUnit = 0x1.0p-24;
// The largest relative distance of two neighbouring bf16 values. Where two results differ in f32's last bits
// they may round to neighbours, so this is the least that a comparison of rounded bf16 values can ask for.
constexpr double kBf16Step = 0x1.0p-7;
constexpr double kF16Step = 0x1.0p-10;
constexpr double kF16Subnormal = 0x1.0p-24;  // below 2^-14 all f16 values are that far apart

// "" where all values pass, else the number of misses and the first five of them. NaN equals NaN only.
//   CHECK(compare(expected, actual, abs, rel) == "");
inline std::string compare(const std::vector<double>& expected, const std::vector<double>& actual, double abs,
                           double rel) {
  if (expected.size() != actual.size()) {
    return fmt::format("{} values instead of {}", actual.size(), expected.size());
  }
  std::string first;
  std::size_t misses = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i], a = actual[i];
    const bool same = e == a || (std::isnan(e) && std::isnan(a));
    if (same || std::abs(a - e) <= abs + rel * std::abs(e)) continue;
    if (++misses > 5) continue;
    first += fmt::format("\n  [{}] expected {:.9g}, got {:.9g}, off by {:.3g}, allowed {:.3g}", i, e, a,
                         a - e, abs + rel * std::abs(e));
  }
  if (misses == 0) return "";
  return fmt::format("{} of {} values differ:{}", misses, expected.size(), first);
}

inline std::string compare(const std::vector<double>& expected, const std::vector<double>& actual,
                           const Tolerance& tolerance) {
  return compare(expected, actual, tolerance.abs, tolerance.rel);
}

}  // namespace lockstep::test
