// Philox4x32-10 on the device: the function of core/rng.h, for kernels that draw by (seed, substream, index).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace lockstep::cuda {

struct PhiloxBlock {
  std::uint32_t words[4];
};

// As Philox(seed, stream).block(substream, index).
__device__ inline PhiloxBlock philox_block(std::uint64_t seed, std::uint32_t stream, std::uint64_t substream,
                                           std::uint64_t index) {
  auto x0 = static_cast<std::uint32_t>(index), x1 = static_cast<std::uint32_t>(index >> 32);
  auto x2 = static_cast<std::uint32_t>(substream);
  std::uint32_t x3 = (stream << 24) | (static_cast<std::uint32_t>(substream >> 32) & 0xFFFFFFu);
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * x0, p1 = std::uint64_t{0xCD9E8D57u} * x2;
    x0 = static_cast<std::uint32_t>(p1 >> 32) ^ x1 ^ k0;
    x1 = static_cast<std::uint32_t>(p1);
    x2 = static_cast<std::uint32_t>(p0 >> 32) ^ x3 ^ k1;
    x3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{x0, x1, x2, x3}};
}

}  // namespace lockstep::cuda
