// Sums over a whole tensor, in chunks that do not depend on the number of threads.
#include <algorithm>

#include "core/hash.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/ops.h"

namespace lockstep::cpu {
namespace {

constexpr std::int64_t kChunk = 1 << 14;  // 4-byte words

// sum_of(first word, last word) of all chunks, added in order.
template <class Sum, class SumOf>
Sum sum_of_chunks(Machine& machine, std::int64_t words, const SumOf& sum_of) {
  const std::int64_t chunks = (words + kChunk - 1) / kChunk;
  Sum* sums = machine.workspace.array<Sum>(Area::sums, std::max<std::int64_t>(chunks, 1));
  machine.threads.split(chunks, 1, words * 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      sums[chunk] = sum_of(chunk * kChunk, std::min(words, (chunk + 1) * kChunk));
    }
  });
  Sum total{};
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) total += sums[chunk];
  return total;
}

}  // namespace

void sum_of_squares(Machine& machine, const TensorView& x, const TensorView& sum) {
  const float* from = x.as<float>();
  const auto squares = [from](std::int64_t first, std::int64_t last) {
    VecDouble lane_sums{};
    for_lanes(first, last, [&](std::int64_t i, auto lanes) {
      const VecDouble values = __builtin_convertvector(load(from + i, lanes), VecDouble);
      lane_sums += values * values;
    });
    double total = 0;
    for (int lane = 0; lane < kLanes; ++lane) total += lane_sums[lane];
    return total;
  };
  sum.as<float>()[0] = static_cast<float>(sum_of_chunks<double>(machine, x.numel(), squares));
}

void checksum(Machine& machine, const TensorView& x, const TensorView& sum) {
  const std::int64_t words = x.bytes() / 4;
  const auto mixed_words = [&](std::int64_t first, std::int64_t last) {
    return checksum_words(x.data, first, last);
  };
  const std::uint64_t value =
      sum_of_chunks<std::uint64_t>(machine, words, mixed_words) + checksum_rest(x.data, x.bytes());
  sum.as<std::int32_t>()[0] = static_cast<std::int32_t>(value);
  sum.as<std::int32_t>()[1] = static_cast<std::int32_t>(value >> 32);
}

}  // namespace lockstep::cpu
