// What the forward and the backward kernels of batch norm share: how threads cover a matrix of rows (N*H*W)
// by channels, and how a block adds up.
//
// A block covers a tile of channels over a chunk of rows. Its threads form a grid of kLanes, each with V
// neighbouring channels, by kRowLanes; a thread keeps its channels and strides over the rows of the chunk. A
// row of a tile is 128 bytes where V is a vector (16 bytes), one whole line of memory; V is 1 where the
// channels do not divide by a vector.
#pragma once

#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {

template <int V>
struct Tile {
  static constexpr int kLanes = V == 1 ? 32 : 8;
  static constexpr int kRowLanes = kThreads / kLanes;
  static constexpr int kChannels = kLanes * V;
};

// The chunks depend on the sizes alone, not on the device, so a sum has the same order everywhere.
struct Chunks {
  std::int64_t rows, channels;
  std::int64_t rows_per_chunk;
  unsigned tiles, count;

  dim3 grid() const { return {tiles, count, 1}; }
};

// At most about max_blocks blocks, and at least a few rows for each thread.
template <int V>
Chunks make_chunks(const TensorView& x, std::int64_t max_blocks) {
  constexpr std::int64_t kRowsPerThread = 4;
  const std::int64_t channels = x.shape[x.shape.rank() - 1], rows = x.numel() / channels;
  const std::int64_t tiles = blocks_for(channels, Tile<V>::kChannels);
  const std::int64_t wanted =
      std::clamp<std::int64_t>(max_blocks / tiles, 1, blocks_for(rows, Tile<V>::kRowLanes * kRowsPerThread));
  const std::int64_t per_chunk = (rows + wanted - 1) / wanted;
  return {rows, channels, per_chunk, static_cast<unsigned>(tiles), blocks_for(rows, per_chunk)};
}

constexpr std::int64_t kReduceBlocks = 512;  // each leaves a partial result, which is read again
constexpr std::int64_t kApplyBlocks = 2048;  // each loads the coefficients of its channels

// The part of a matrix that one thread has: rows first, first + kRowLanes, ... below end, and V channels.
template <int V>
struct Share {
  std::int64_t first, end;
  std::int64_t channel;  // may lie behind the last; such a thread only takes part in barriers

  __device__ explicit Share(const Chunks& chunks) {
    const int thread = static_cast<int>(threadIdx.x);
    const std::int64_t start = blockIdx.y * chunks.rows_per_chunk;
    const std::int64_t stop = start + chunks.rows_per_chunk;
    channel = static_cast<std::int64_t>(blockIdx.x) * Tile<V>::kChannels + thread % Tile<V>::kLanes * V;
    first = start + thread / Tile<V>::kLanes;
    end = channel >= chunks.channels ? 0 : stop < chunks.rows ? stop : chunks.rows;
  }
};

// The second stage of every reduction: a block has kFinishChannels channels, kFinishGroups threads for each,
// which take the partial results of the chunks in turn.
constexpr int kFinishChannels = 8;
constexpr int kFinishGroups = kThreads / kFinishChannels;

// Calls merge(thread, other) for pairs of threads that are a multiple of stride apart, until the first stride
// threads hold the results of all. The caller has written what it merges to shared memory. Every thread of
// the block must come here.
template <class Merge>
__device__ __forceinline__ void merge_block(int stride, const Merge& merge) {
  for (int distance = kThreads / 2; distance >= stride; distance /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < distance) {
      merge(static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.x) + distance);
    }
  }
  __syncthreads();
}

// Mean and spread of each channel: in training the inverse deviation, in evaluation the running variance.
struct Statistics {
  const float* mean;
  const float* spread;
  float epsilon;
  bool spread_is_variance;

  __device__ float inverse_deviation(float value) const {
    return spread_is_variance ? 1.0f / sqrtf(value + epsilon) : value;
  }
  template <int V>
  __device__ void load(std::int64_t channel, float (&means)[V], float (&inverse_deviations)[V]) const {
    load_channels<V>(mean + channel, means);
    load_channels<V>(spread + channel, inverse_deviations);
    for (float& value : inverse_deviations) value = inverse_deviation(value);
  }
};

}  // namespace lockstep::cuda
