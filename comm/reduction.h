// The arithmetic of collectives, and how a buffer is cut into one chunk a rank.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

enum class ReduceOp { mean, sum, max };

// into[i] = into[i] op from[i]. The maximum with a NaN is that NaN, on whichever side it is.
template <class T>
void accumulate(ReduceOp op, T* into, const T* from, std::int64_t count) {
  if (op == ReduceOp::max) {
    for (std::int64_t i = 0; i < count; ++i)
      into[i] = from[i] > into[i] || from[i] != from[i] ? from[i] : into[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) into[i] += from[i];
  }
}

// The last step of a mean; nothing for the others.
template <class T>
void finish_reduction(ReduceOp op, T* data, std::int64_t count, int ranks) {
  if (op != ReduceOp::mean) return;
  const T scale = T(1) / static_cast<T>(ranks);
  for (std::int64_t i = 0; i < count; ++i) data[i] *= scale;
}

struct Range {
  std::int64_t begin = 0, length = 0;
};

// Chunk `index` of `chunks` equal ones; where they do not divide, the last ones are shorter or empty.
inline Range chunk_of(std::int64_t count, int chunks, int index) {
  const std::int64_t size = (count + chunks - 1) / chunks;
  const std::int64_t begin = std::min(size * index, count);
  return {begin, std::min(size, count - begin)};
}

}  // namespace lockstep
