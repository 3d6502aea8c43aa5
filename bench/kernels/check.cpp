#include "bench/kernels/check.h"

#include <algorithm>
#include <cmath>

namespace lockstep::bench {
namespace {

// Multiplications and elements together that the plain loops do in about a tenth of a second.
constexpr double kAffordable = 1e8;

double root_mean_square(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(1, values.size())));
}

}  // namespace

double distance_of_neighbours(DType compute, bool tf32) {
  switch (compute) {
    case DType::bf16:
      return 0x1p-7;
    case DType::f16:
      return 0x1p-10;
    default:
      // Both factors of a product are rounded to 2^-11, and the largest of a million products, to which that
      // is relative, is twenty times their root mean square.
      return tf32 ? 0x1p-6 : 0;
  }
}

std::int64_t affordable_period(const Call& call) {
  double work = call.flops / 2;
  for (const Operand& operand : call.operands) {
    if (operand.view && operand.per_sample) work += static_cast<double>(operand.view.numel());
  }
  work /= static_cast<double>(call.samples);
  std::int64_t period = call.samples;
  // Down through the divisors, as long as the next one is well-conditioned.
  for (std::int64_t d = call.samples; d >= call.least_samples; --d) {
    if (call.samples % d != 0) continue;
    period = d;
    if (static_cast<double>(d) * work <= kAffordable) break;
  }
  return period;
}

std::string compare(const Values& expected, const Values& actual, double roundings, double neighbours) {
  if (expected.size() != actual.size())
    return fmt::format("{} values instead of {}", actual.size(), expected.size());
  const double relative = roundings == 0 ? 0 : roundings * 0x1p-24 + neighbours;
  const double least = relative * root_mean_square(expected);
  std::string first;
  std::size_t misses = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double allowed = std::max(least, relative * std::abs(expected[i]));
    if (actual[i] == expected[i] || std::abs(actual[i] - expected[i]) <= allowed) continue;
    if (++misses > 1) continue;
    first = fmt::format("element {} is {:.9g} and should be {:.9g}, within {:.3g}", i, actual[i], expected[i],
                        allowed);
  }
  return misses == 0 ? "" : fmt::format("{} of {} values are wrong; {}", misses, expected.size(), first);
}

std::string check(const Instance& tested, const Instance& reference, double neighbours) {
  for (const Instance* instance : {&tested, &reference}) {
    instance->prepare();
    instance->run();
  }
  for (std::size_t i = 0; i < tested.call().operands.size(); ++i) {
    const Operand& operand = tested.call().operands[i];
    if (!operand.view || (operand.role != Role::output && operand.role != Role::updated)) continue;
    Values expected = reference.read(i, 0);
    if (operand.growth) {
      const double factor = operand.growth(tested.period());
      for (double& value : expected) value *= factor;
    }
    for (std::int64_t p = 0; p < (operand.per_sample ? tested.periods() : 1); ++p) {
      const std::string wrong = compare(expected, tested.read(i, p), operand.roundings, neighbours);
      if (!wrong.empty())
        return fmt::format("{}, from sample {}: {}", operand.name, p * tested.period(), wrong);
    }
  }
  return "";
}

}  // namespace lockstep::bench
