#include "core/dtype.h"

namespace lockstep {

std::int64_t size_of(DType type) {
  switch (type) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

float16::float16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7FFFFFFFu;
  constexpr std::uint32_t kInfinity = 0x7F800000u, k65536 = 0x47800000u, kSmallestNormal = 0x38800000u;
  std::uint32_t half;
  if (magnitude > kInfinity) {
    half = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  } else if (magnitude >= k65536) {
    half = 0x7C00u;
  } else if (magnitude < kSmallestNormal) {
    // The last bit of a sum in [0.5, 1) is 2^-24, the step of the subnormals: the addition rounds as wanted.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  } else {
    // The exponent's bias is 15 instead of 127; a carry out of the mantissa moves on into the exponent.
    half = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  }
  bits = static_cast<std::uint16_t>(sign | half);
}

float16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7FFFu;
  std::uint32_t u;
  if (magnitude >= 0x7C00u) {
    u = 0x7F800000u | (magnitude << 13);
  } else if (magnitude < 0x400u) {
    u = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  } else {
    u = (magnitude << 13) + (112u << 23);
  }
  return std::bit_cast<float>(sign | u);
}

const char* name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::u8:
      return "u8";
    case DType::i32:
      return "i32";
  }
  return "unknown";
}

}  // namespace lockstep
