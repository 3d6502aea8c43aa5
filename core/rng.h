// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011). A value is a pure function of (seed, stream, index), so nothing depends on which
// rank, thread or order computes it. tests/parity/philox.py is the same function in Python.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace lockstep {

// Ten rounds over a 128-bit counter with a 64-bit key.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

// Independent uses of one seed. The stream id goes into the counter's upper half.
enum class RandomStream : std::uint32_t { init = 1, augment = 2, synthetic = 3 };

// key = seed; counter = {low(index), high(index), low(substream), (stream << 24) | high 24 bits of
// substream}.
class Philox {
 public:
  Philox(std::uint64_t seed, RandomStream stream) : seed_(seed), stream_(stream) {}
  std::array<std::uint32_t, 4> block(std::uint64_t substream, std::uint64_t index) const;

  // Word i % 4 of block i / 4 gives out[i] = min(low + (high - low) * to_unit(word), the float before high).
  void fill_uniform(std::uint64_t substream, float low, float high, std::span<float> out) const;

  // Box-Muller: block b gives out[4b..4b+3] from its word pairs (0,1) and (2,3). Of a pair (v, w):
  //   u = ((v >> 8) + 1) 2^-24, t = (w >> 8) 2^-24, r = sqrt(-2 ln u),
  //   out = mean + deviation * (r cos(2 pi t)), then the same with the sine.
  // Logarithm and angle are short series (rng.cpp) in float, no operation fused with another: the bits are
  // equal on every machine and in any vector width, and the values are within 1e-6 of the exact ones.
  void fill_normal(std::uint64_t substream, float mean, float deviation, std::span<float> out) const;

 private:
  std::uint64_t seed_;
  RandomStream stream_;
};

// A word as a float in [0, 1): its upper 24 bits.
inline float to_unit(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1.0p-24f;
}

}  // namespace lockstep
