// Which rank sees which samples: the indices of torch.utils.data.DistributedSampler, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

struct SamplerOptions {
  std::int64_t dataset_size = 0;
  int world_size = 1;
  int rank = 0;
  bool shuffle = true;
  bool drop_last = false;
  std::uint64_t seed = 0;
};

// Indices of one rank for one epoch. The epoch is an argument, so it cannot be forgotten.
//   order = shuffle ? torch.randperm(n, generator seeded with seed + epoch) : 0..n-1
//   without drop_last: padded cyclically to a multiple of world_size; with: cut to one
//   rank r takes order[r], order[r + world_size], ...
std::vector<std::int64_t> distributed_indices(const SamplerOptions& options, std::int64_t epoch);

// Samples of every rank in an epoch.
std::int64_t samples_per_rank(const SamplerOptions& options);

// Evaluation: every sample exactly once over all ranks, in contiguous shares that differ by at most one; no
// padding.
std::vector<std::int64_t> evaluation_indices(std::int64_t dataset_size, int world_size, int rank);

// torch.randperm(n, generator=torch.Generator().manual_seed(seed)) on the CPU: mt19937 and Fisher-Yates.
std::vector<std::int64_t> torch_randperm(std::int64_t n, std::uint64_t seed);

}  // namespace lockstep
