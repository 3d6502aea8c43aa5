// Initial values of parameters and buffers, from counter-based random numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/context.h"
#include "layers/parameter_store.h"

namespace lockstep {

struct InitialValue {
  enum class Kind { constant, normal, uniform };
  int parameter = -1;  // index in the store
  Kind kind = Kind::constant;
  float scale = 0.0f;  // the constant; the deviation of normal(0, scale); the bound of uniform(-scale, scale)
};

inline constexpr std::int64_t kInitialChunk = 65536;  // elements that share a substream
inline constexpr std::uint64_t kSubstreamsAParameter = 1u << 20;

// Writes masters, working copies and buffers. values[p] (in torchvision's order) takes the substreams
// p * kSubstreamsAParameter + k of Philox(seed, init), k counting its chunks: chunks need no state and fit a
// cache.
void initialize_parameters(Context& context, const ParameterStore& store,
                           const std::vector<InitialValue>& values, std::uint64_t seed);

}  // namespace lockstep
