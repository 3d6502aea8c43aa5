// Short spelling for the operands of a call.
#pragma once

#include <cmath>
#include <utility>

#include "bench/kernels/call.h"

namespace lockstep::bench {

inline Operand input(const char* name, const TensorView& view) {
  return {name, view};
}
inline Operand output(const char* name, const TensorView& view, double roundings) {
  Operand operand{name, view, Role::output};
  operand.roundings = roundings;
  return operand;
}
inline Operand updated(const char* name, const TensorView& view, double roundings) {
  Operand operand = output(name, view, roundings);
  operand.role = Role::updated;
  return operand;
}
// A destination that a gradient replaces, or is added to.
inline Operand gradient(const char* name, const TensorView& view, GradMode mode, double roundings) {
  return mode == GradMode::accumulate ? updated(name, view, roundings) : output(name, view, roundings);
}
inline Operand per_sample(Operand operand) {
  operand.per_sample = true;
  return operand;
}
inline Operand within(Operand operand, double low, double high) {
  operand.low = low;
  operand.high = high;
  return operand;
}
inline Operand constant(Operand operand, double value) {
  return within(std::move(operand), value, value);
}

// A sum over the samples. What it is added to is zero, since that does not grow with the batch.
inline Operand sum_over_samples(Operand operand, std::int64_t samples) {
  operand.growth = [samples](std::int64_t period) {
    return static_cast<double>(samples) / static_cast<double>(period);
  };
  return constant(std::move(operand), 0);
}

// Roundings of a sum of so many products of values in [-1, 1), of which the result has the root: each partial
// sum is rounded once, which adds up to 0.4 sqrt(terms) roundings of the result. This is twenty times that.
inline double sum_of(double terms) {
  return 4 + 8 * std::sqrt(terms);
}

}  // namespace lockstep::bench
