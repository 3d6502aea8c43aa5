// Sums over a whole tensor: of squares, and the checksum of core/hash.h.
#include <algorithm>

#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/machine.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

struct Squares {
  using Word = float;
  using Sum = double;
  static __device__ __forceinline__ Sum term(std::int64_t, Word word) {
    return static_cast<double>(word) * static_cast<double>(word);
  }
};

struct MixedWords {
  using Word = std::uint32_t;
  using Sum = std::uint64_t;
  static __device__ __forceinline__ Sum mixed(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
  }
  static __device__ __forceinline__ Sum term(std::int64_t index, Word word) {
    return mixed((static_cast<std::uint64_t>(index) + 1) * 0x9E3779B97F4A7C15u + word);
  }
};

// The sum of one value of each thread of the block, for thread 0. Threads add up as a tree.
template <class Sum>
__device__ __forceinline__ Sum block_sum(Sum value) {
  static __shared__ Sum shared[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  shared[thread] = value;
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    __syncthreads();
    if (thread < distance) shared[thread] += shared[thread + distance];
  }
  return shared[thread];
}

// sums[block] = sum of the terms of the block's words. Mapping: a thread takes 16 bytes (the last ones of x
// one by one), then those that lie a grid further on. Bytes: reads x once. Deterministic: the grid depends on
// the count alone.
template <class Term>
__global__ void partial_sums_kernel(const typename Term::Word* x, std::int64_t count,
                                    typename Term::Sum* sums) {
  constexpr int kSize = Vector<typename Term::Word>::kSize;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads * kSize;
  typename Term::Sum sum = 0;
  for (std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kSize;
       first < count; first += step) {
    if (first + kSize <= count) {
      const auto vector = load_vector(x + first);
      for (int i = 0; i < kSize; ++i) sum += Term::term(first + i, vector.values[i]);
    } else {
      for (std::int64_t i = first; i < count; ++i) sum += Term::term(i, x[i]);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// The sum of the blocks' sums, for thread 0. Every thread of the block must come here.
template <class Sum>
__device__ __forceinline__ Sum sum_of_blocks(const Sum* sums, int blocks) {
  Sum sum = 0;
  for (int block = static_cast<int>(threadIdx.x); block < blocks; block += kThreads) sum += sums[block];
  return block_sum(sum);
}

// Mapping: one block; a thread adds every kThreads-th partial sum in order, the threads add up as a tree.
// Bytes: reads 8 a block of the first kernel. Deterministic.
__global__ void sum_of_squares_kernel(const double* sums, int blocks, float* result) {
  const double sum = sum_of_blocks(sums, blocks);
  if (threadIdx.x == 0) *result = static_cast<float>(sum);
}

// The same, and what the words have left out: the number of bytes and those behind the last whole word.
__global__ void checksum_kernel(const std::uint64_t* sums, int blocks, const unsigned char* data,
                                std::int64_t bytes, std::int32_t* result) {
  std::uint64_t sum = sum_of_blocks(sums, blocks);
  if (threadIdx.x != 0) return;
  sum += MixedWords::mixed(static_cast<std::uint64_t>(bytes));
  const std::int64_t words = bytes / 4;
  std::uint32_t rest = 0;
  for (std::int64_t i = words * 4; i < bytes; ++i) {
    rest |= static_cast<std::uint32_t>(data[i]) << (8 * (i % 4));
  }
  if (bytes % 4 != 0) sum += MixedWords::term(words, rest);
  result[0] = static_cast<std::int32_t>(sum);
  result[1] = static_cast<std::int32_t>(sum >> 32);
}

template <class Sum>
struct Partial {
  Sum* sums;
  int blocks;
};

template <class Term>
Partial<typename Term::Sum> partial_sums(const char* op, Machine& machine, Stream& stream,
                                         const TensorView& x, std::int64_t count) {
  constexpr std::int64_t kMostBlocks = 1024;
  const std::int64_t whole = std::max<std::int64_t>(count, 1);  // of three bytes no word is whole
  const auto blocks = static_cast<int>(
      std::min<std::int64_t>(kMostBlocks, blocks_for(whole, kThreads * Vector<typename Term::Word>::kSize)));
  auto* sums = machine.workspace.array<typename Term::Sum>(Area::sums, blocks);
  launch("partial_sums_kernel", stream, static_cast<unsigned>(blocks), kThreads, partial_sums_kernel<Term>,
         device_pointer<typename Term::Word>(op, x), count, sums);
  return {sums, blocks};
}

}  // namespace

void sum_of_squares(Machine& machine, Stream& stream, const TensorView& x, const TensorView& sum) {
  contract::sum_of_squares(x, sum);
  const auto partial = partial_sums<Squares>("sum_of_squares", machine, stream, x, x.numel());
  launch("sum_of_squares_kernel", stream, 1, kThreads, sum_of_squares_kernel, partial.sums, partial.blocks,
         sum.as<float>());
}

void checksum(Machine& machine, Stream& stream, const TensorView& x, const TensorView& sum) {
  contract::checksum(x, sum);
  const auto partial = partial_sums<MixedWords>("checksum", machine, stream, x, x.bytes() / 4);
  launch("checksum_kernel", stream, 1, kThreads, checksum_kernel, partial.sums, partial.blocks,
         static_cast<const unsigned char*>(x.data), x.bytes(), sum.as<std::int32_t>());
}

}  // namespace lockstep::cuda
