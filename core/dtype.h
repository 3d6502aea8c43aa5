// Element types. Compute types are f32, bf16 and f16; masters are always f32.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace lockstep {

enum class DType : std::uint8_t { f32, bf16, f16, u8, i32 };

std::int64_t size_of(DType type);
const char* name_of(DType type);

// bfloat16: the upper 16 bits of an IEEE float. Conversion rounds to nearest even; NaN stays NaN.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = u + 0x7FFFu + ((u >> 16) & 1u);
    bits = static_cast<std::uint16_t>(((u & 0x7FFFFFFFu) > 0x7F800000u) ? (u >> 16) | 0x40u : rounded >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};
static_assert(sizeof(bfloat16) == 2);

// float16: IEEE binary16, 10 bits of mantissa, largest value 65504, subnormals from 2^-24. Conversion rounds
// to nearest even; what rounds to 65536 or more becomes an infinity, NaN stays NaN.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
};
static_assert(sizeof(float16) == 2);

// The DType of a C++ element type, for checked access to a TensorView.
template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<bfloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<float16>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::i32;
}

}  // namespace lockstep
