// Sixteen floats at a time, in the compiler's own vector types: one AVX-512 register where the build has
// them, two or four narrower ones elsewhere. bf16 is widened on load and rounded (to nearest even) on store.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "core/dtype.h"

// Vectors wider than the build's registers have no fixed calling convention, which does not matter to inlined
// code.
#pragma GCC diagnostic ignored "-Wpsabi"

#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

namespace lockstep::cpu {

inline constexpr int kLanes = 16;
using Vec = float __attribute__((vector_size(64)));
using VecInt = std::int32_t __attribute__((vector_size(64)));
using VecUint = std::uint32_t __attribute__((vector_size(64)));
using VecHalf = std::uint16_t __attribute__((vector_size(32)));
using VecByte = std::uint8_t __attribute__((vector_size(16)));
using VecDouble = double __attribute__((vector_size(128)));

// What the build has registers for. Sums that stay in registers through a long loop are kept in these: of a
// wider vector, g++ keeps every intermediate value in memory.
#if defined(__AVX512F__)
inline constexpr int kRegisterLanes = 16;
#elif defined(__AVX__)
inline constexpr int kRegisterLanes = 8;
#else
inline constexpr int kRegisterLanes = 4;
#endif
using Register = float __attribute__((vector_size(kRegisterLanes * sizeof(float))));

LOCKSTEP_INLINE Register load_register(const float* from) {
  Register value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
LOCKSTEP_INLINE void store_register(float* to, Register value) {
  std::memcpy(to, &value, sizeof(value));
}

LOCKSTEP_INLINE Vec splat(float value) {
  return Vec{} + value;
}

LOCKSTEP_INLINE Vec widen(VecHalf half) {
  return reinterpret_cast<Vec>(__builtin_convertvector(half, VecUint) << 16);
}

LOCKSTEP_INLINE VecHalf narrow(Vec value) {
  const VecUint bits = reinterpret_cast<VecUint>(value);
  const VecUint rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const VecUint quiet_nan = (bits >> 16) | 0x40u;
  return __builtin_convertvector(value == value ? rounded : quiet_nan, VecHalf);
}

// How many of the sixteen lanes exist: all of them, or the last few of a row.
struct AllLanes {
  static constexpr std::int64_t count() { return kLanes; }
};
struct SomeLanes {
  std::int64_t n;
  std::int64_t count() const { return n; }
};

template <class Raw, class T, class Lanes>
LOCKSTEP_INLINE Raw load_raw(const T* from, Lanes lanes) {
  Raw raw{};
  if constexpr (std::is_same_v<Lanes, AllLanes>) {
    std::memcpy(&raw, from, sizeof(raw));
  } else {
    for (std::int64_t i = 0; i < lanes.count(); ++i)
      std::memcpy(reinterpret_cast<char*>(&raw) + i * static_cast<std::int64_t>(sizeof(T)), from + i,
                  sizeof(T));
  }
  return raw;
}

template <class Raw, class T, class Lanes>
LOCKSTEP_INLINE void store_raw(T* to, Raw raw, Lanes lanes) {
  if constexpr (std::is_same_v<Lanes, AllLanes>) {
    std::memcpy(static_cast<void*>(to), &raw, sizeof(raw));
  } else {
    for (std::int64_t i = 0; i < lanes.count(); ++i)
      std::memcpy(static_cast<void*>(to + i),
                  reinterpret_cast<const char*>(&raw) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  }
}

// Missing lanes load as zero.
template <class Lanes>
LOCKSTEP_INLINE Vec load(const float* from, Lanes lanes) {
  return load_raw<Vec>(from, lanes);
}
template <class Lanes>
LOCKSTEP_INLINE Vec load(const bfloat16* from, Lanes lanes) {
  return widen(load_raw<VecHalf>(from, lanes));
}
template <class Lanes>
LOCKSTEP_INLINE void store(float* to, Vec value, Lanes lanes) {
  store_raw(to, value, lanes);
}
template <class Lanes>
LOCKSTEP_INLINE void store(bfloat16* to, Vec value, Lanes lanes) {
  store_raw(to, narrow(value), lanes);
}

// Stores of whole vectors, to an address that is a multiple of the vector's size, past the caches (to be
// followed by store_fence). For what other cores have in their caches and this one does not: a plain store
// first has to take each line away from them, which costs several times the store where the cores share no
// cache.
LOCKSTEP_INLINE void store_past_caches(float* to, Vec value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, reinterpret_cast<__m512>(value));
#elif defined(__SSE2__)
  for (int i = 0; i < 4; ++i) _mm_stream_ps(to + 4 * i, reinterpret_cast<const __m128*>(&value)[i]);
#else
  store(to, value, AllLanes{});
#endif
}
LOCKSTEP_INLINE void store_past_caches(bfloat16* to, Vec value) {
  const VecHalf half = narrow(value);
#if defined(__SSE2__)
  for (int i = 0; i < 2; ++i)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, reinterpret_cast<const __m128i*>(&half)[i]);
#else
  store_raw(to, half, AllLanes{});
#endif
}
inline void store_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

LOCKSTEP_INLINE Vec relu(Vec value) {
  return value < 0.0f ? Vec{} : value;
}  // keeps NaN

// Calls body(first channel, lanes) for each group of sixteen channels in [begin, end).
template <class Body>
LOCKSTEP_INLINE void for_lanes(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t c = begin;
  for (; c + kLanes <= end; c += kLanes) body(c, AllLanes{});
  if (c < end) body(c, SomeLanes{end - c});
}

}  // namespace lockstep::cpu
