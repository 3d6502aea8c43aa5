// How the reference loops read and write elements: every value is loaded into a double, all arithmetic is in
// double, and a result is rounded once, when it is stored.
#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"
#include "core/error.h"
#include "kernels/backend.h"

namespace lockstep::reference {

inline double load(float value) {
  return static_cast<double>(value);
}
inline double load(bfloat16 value) {
  return static_cast<double>(static_cast<float>(value));
}

inline double load(float16 value) {
  return static_cast<double>(static_cast<float>(value));
}

inline void store(float& to, double value) {
  to = static_cast<float>(value);
}

// double -> float -> a 16-bit type would round twice. So the step to float rounds to odd (an inexact value is
// truncated and its last bit set), which keeps every tie and near-tie on its side; the step to 16 bits then
// rounds as from the double.
inline float rounded_to_odd(double value) {
  float narrow = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(narrow);
  const double back = static_cast<double>(narrow);
  const bool inexact = back != value && value == value && (bits & 0x7FFFFFFFu) < 0x7F800000u;
  if (inexact) {
    const bool grew = (value < 0) ? back < value : back > value;
    if (grew) --bits;  // one step towards zero
    narrow = std::bit_cast<float>(bits | 1u);
  }
  return narrow;
}
inline void store(bfloat16& to, double value) {
  to = bfloat16(rounded_to_odd(value));
}
inline void store(float16& to, double value) {
  to = float16(rounded_to_odd(value));
}

// A gradient that replaces what is there, or is added to it.
inline void store(float& to, double value, GradMode mode) {
  store(to, mode == GradMode::accumulate ? load(to) + value : value);
}

// Calls function(T{}) with the C++ type of a compute type.
template <class Function>
void with_compute_type(DType type, const Function& function) {
  if (type == DType::f32) return function(float{});
  if (type == DType::bf16) return function(bfloat16{});
  if (type == DType::f16) return function(float16{});
  fail(ExitCode::internal, "the reference backend does not compute in {}", name_of(type));
}

}  // namespace lockstep::reference
