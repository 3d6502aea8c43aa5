#include "core/rng.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace lockstep {
namespace {

constexpr std::uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
constexpr int kRounds = 10;

// Blocks are generated kBlocks at a time into one array a word, so that the compiler turns every loop into
// vector code: consecutive blocks stand in consecutive lanes.
constexpr std::size_t kBlocks = 256;
using Lane = std::array<std::uint32_t, kBlocks>;
struct Words {
  alignas(64) Lane w0, w1, w2, w3;
};

struct Counter {
  std::uint32_t word2, word3;
};

Counter counter_of(RandomStream stream, std::uint64_t substream) {
  const auto high = static_cast<std::uint32_t>(substream >> 32) & 0xFFFFFFu;
  return {static_cast<std::uint32_t>(substream), (static_cast<std::uint32_t>(stream) << 24) | high};
}

void generate(std::uint64_t seed, Counter counter, std::uint64_t first, Words& out) {
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::uint64_t index = first + i;
    auto x0 = static_cast<std::uint32_t>(index), x1 = static_cast<std::uint32_t>(index >> 32);
    std::uint32_t x2 = counter.word2, x3 = counter.word3;
    auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t p0 = std::uint64_t{kMul0} * x0, p1 = std::uint64_t{kMul1} * x2;
      x0 = static_cast<std::uint32_t>(p1 >> 32) ^ x1 ^ k0;
      x1 = static_cast<std::uint32_t>(p1);
      x2 = static_cast<std::uint32_t>(p0 >> 32) ^ x3 ^ k1;
      x3 = static_cast<std::uint32_t>(p0);
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    out.w0[i] = x0;
    out.w1[i] = x1;
    out.w2[i] = x2;
    out.w3[i] = x3;
  }
}

// ln u for u = (upper 24 bits + 1) * 2^-24, which is in (0, 1].
inline float log_unit(std::uint32_t word) {
  const float u = static_cast<float>(static_cast<std::int32_t>((word >> 8) + 1)) * 0x1.0p-24f;
  // u = 2^e * m with m in [sqrt(1/2), sqrt(2)): the bits of u, moved so that the exponent changes at
  // sqrt(1/2).
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(u) - 0x3F3504F3u;
  const auto e = static_cast<float>(static_cast<std::int32_t>(bits) >> 23);
  const float m = std::bit_cast<float>((bits & 0x007FFFFFu) + 0x3F3504F3u);
  // ln m = 2 artanh s, s = (m-1)/(m+1), |s| <= 0.172: the term after s^9/9 is below half a unit in the last
  // place.
  const float s = (m - 1.0f) / (m + 1.0f);
  const float t = s * s;
  const float series = (((t * (1.0f / 9.0f) + 1.0f / 7.0f) * t + 1.0f / 5.0f) * t + 1.0f / 3.0f) * t;
  const float ln_m = 2.0f * (s + s * series);
  return e * 0x1.62E430p-1f + ln_m;
}

struct Angle {
  float cosine, sine;
};

// Cosine and sine of 2 pi u, u = upper 24 bits * 2^-24: the nearest quarter turn exactly, the rest by Taylor
// series.
inline Angle turn(std::uint32_t word) {
  const std::uint32_t v = word >> 8;
  const std::uint32_t quarter = (v + 0x200000u) >> 22;
  const auto rest = static_cast<std::int32_t>(v - (quarter << 22));
  const float x = static_cast<float>(rest) * (0x1.921FB6p0f * 0x1.0p-22f);  // in [-pi/4, pi/4]
  const float z = x * x;
  const float s =
      x + x * z * (((z * (1.0f / 362880.0f) - 1.0f / 5040.0f) * z + 1.0f / 120.0f) * z - 1.0f / 6.0f);
  const float c =
      ((((z * (-1.0f / 3628800.0f) + 1.0f / 40320.0f) * z - 1.0f / 720.0f) * z + 1.0f / 24.0f) * z - 0.5f) *
          z +
      1.0f;
  const float cosine = (quarter & 1u) ? s : c;
  const float sine = (quarter & 1u) ? c : s;
  // Quarters 1 and 2 have a negative cosine, 2 and 3 a negative sine: the sign bit is flipped there.
  const std::uint32_t cosine_sign = ((quarter + 1u) & 2u) << 30;
  const std::uint32_t sine_sign = (quarter & 2u) << 30;
  return {std::bit_cast<float>(std::bit_cast<std::uint32_t>(cosine) ^ cosine_sign),
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(sine) ^ sine_sign)};
}

void box_muller(const Lane& radius_words, const Lane& angle_words, float mean, float deviation, float* out) {
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const float radius = std::sqrt(-2.0f * log_unit(radius_words[i]));
    const Angle angle = turn(angle_words[i]);
    out[4 * i] = mean + deviation * (radius * angle.cosine);
    out[4 * i + 1] = mean + deviation * (radius * angle.sine);
  }
}

// Calls convert(words, floats) for every kBlocks blocks and writes what fits.
template <class Convert>
void fill(std::uint64_t seed, Counter counter, std::span<float> out, Convert convert) {
  Words words;
  alignas(64) std::array<float, 4 * kBlocks> tail;
  for (std::size_t done = 0; done < out.size(); done += tail.size()) {
    generate(seed, counter, done / 4, words);
    const std::size_t count = std::min(tail.size(), out.size() - done);
    if (count == tail.size()) {
      convert(words, out.data() + done);
    } else {
      convert(words, tail.data());
      std::copy_n(tail.data(), count, out.data() + done);
    }
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMul0} * counter[0], p1 = std::uint64_t{kMul1} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

std::array<std::uint32_t, 4> Philox::block(std::uint64_t substream, std::uint64_t index) const {
  const Counter counter = counter_of(stream_, substream);
  return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                     counter.word2, counter.word3},
                    {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
}

void Philox::fill_uniform(std::uint64_t substream, float low, float high, std::span<float> out) const {
  // The sum may round up to high itself: the largest value is the one before it.
  const float largest = std::nextafter(high, low);
  fill(seed_, counter_of(stream_, substream), out, [=](const Words& words, float* to) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const auto value = [=](std::uint32_t word) {
        return std::min(
            low + (high - low) * (static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1.0p-24f),
            largest);
      };
      to[4 * i] = value(words.w0[i]);
      to[4 * i + 1] = value(words.w1[i]);
      to[4 * i + 2] = value(words.w2[i]);
      to[4 * i + 3] = value(words.w3[i]);
    }
  });
}

void Philox::fill_normal(std::uint64_t substream, float mean, float deviation, std::span<float> out) const {
  fill(seed_, counter_of(stream_, substream), out, [=](const Words& words, float* to) {
    box_muller(words.w0, words.w1, mean, deviation, to);
    box_muller(words.w2, words.w3, mean, deviation, to + 2);
  });
}

}  // namespace lockstep
