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

  // out[i] in [low, high): 24-bit uniforms, word i%4 of block i/4.
  void fill_uniform(std::uint64_t substream, float low, float high, std::span<float> out) const;
  // Normal by Box-Muller: block b gives out[4b..4b+3] from its word pairs (0,1) and (2,3); cosine first.
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
