// TF32: f32's exponent with 10 bits of mantissa, to which tensor cores take f32 factors.
#pragma once

#include <bit>
#include <cstdint>

namespace cudasim {

// As cvt.rna.tf32.f32: to nearest, ties away from zero.
inline float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) >= 0x7F800000u) return value;
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1FFFu);
}

}  // namespace cudasim
