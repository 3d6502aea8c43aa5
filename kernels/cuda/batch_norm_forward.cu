// Batch norm forward, fused with the residual add and ReLU. Training takes three kernels: partial statistics
// of chunks of rows, their sum, and the normalisation; evaluation takes the last one alone.
#include "kernels/contracts.h"
#include "kernels/cuda/batch_norm.cuh"
#include "kernels/cuda/machine.h"
#include "kernels/cuda/ops.h"

namespace lockstep::cuda {
namespace {

// count values with this mean and this sum of squared deviations from it. Means are relative to the channel's
// value in row 0, which keeps them small where all values are large.
struct Moments {
  float count, mean, squares;
};

// T. Chan, G. Golub and R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979.
__device__ __forceinline__ Moments merged(const Moments& a, const Moments& b) {
  if (b.count == 0.0f) return a;
  if (a.count == 0.0f) return b;
  const float count = a.count + b.count, delta = b.mean - a.mean, part = b.count / count;
  return {count, fmaf(delta, part, a.mean), fmaf(delta * delta, a.count * part, a.squares + b.squares)};
}

// For each chunk of rows and each channel: mean - x[0] and the sum of (x - mean)^2. Mapping: see Tile. A
// thread sums d = x - shift and d^2, where its shift is the first value it meets: with n values the deviation
// of the shift from their mean is at most sqrt(n) of their deviations, so that little cancels (n is some
// hundreds at most in practice). Threads and chunks are merged as Moments. Bytes: reads x once; writes 8 a
// channel and chunk. Deterministic: the order of sums depends on the shape alone.
template <int V, class T>
__global__ void batch_norm_moments_kernel(Chunks chunks, const T* x, float* means, float* squares) {
  static __shared__ float shared_count[kThreads];
  static __shared__ float shared_mean[V][kThreads], shared_squares[V][kThreads];
  const Share<V> share(chunks);
  const int thread = static_cast<int>(threadIdx.x);
  float origin[V] = {}, shift[V] = {}, sum[V] = {}, sum_squares[V] = {};
  float count = 0.0f;
  if (share.first < share.end) {
    load_floats<V>(x + share.channel, origin);
    load_floats<V>(x + share.first * chunks.channels + share.channel, shift);
    const std::int64_t rows = (share.end - share.first + Tile<V>::kRowLanes - 1) / Tile<V>::kRowLanes;
    count = static_cast<float>(rows);
  }
  for (std::int64_t row = share.first + Tile<V>::kRowLanes; row < share.end; row += Tile<V>::kRowLanes) {
    float values[V];
    load_floats<V>(x + row * chunks.channels + share.channel, values);
    for (int v = 0; v < V; ++v) {
      const float d = values[v] - shift[v];
      sum[v] += d;
      sum_squares[v] = fmaf(d, d, sum_squares[v]);
    }
  }
  const float inverse_count = count > 0.0f ? 1.0f / count : 0.0f;
  shared_count[thread] = count;
  for (int v = 0; v < V; ++v) {
    const float deviations = fmaf(-sum[v], sum[v] * inverse_count, sum_squares[v]);
    shared_mean[v][thread] = fmaf(sum[v], inverse_count, shift[v] - origin[v]);
    shared_squares[v][thread] = deviations < 0.0f ? 0.0f : deviations;  // a NaN stays
  }
  merge_block(Tile<V>::kLanes, [](int a, int b) {
    Moments moments{};
    for (int v = 0; v < V; ++v) {
      moments = merged({shared_count[a], shared_mean[v][a], shared_squares[v][a]},
                       {shared_count[b], shared_mean[v][b], shared_squares[v][b]});
      shared_mean[v][a] = moments.mean;
      shared_squares[v][a] = moments.squares;
    }
    shared_count[a] = moments.count;
  });
  if (thread >= Tile<V>::kLanes || share.channel >= chunks.channels) return;
  for (int v = 0; v < V; ++v) {
    means[blockIdx.y * chunks.channels + share.channel + v] = shared_mean[v][thread];
    squares[blockIdx.y * chunks.channels + share.channel + v] = shared_squares[v][thread];
  }
}

struct TrainedVectors {
  float *running_mean, *running_var, *saved_mean, *saved_invstd;
};

// Merges the chunks of a channel. saved_mean = mean, saved_invstd = 1 / sqrt(variance + epsilon), and
// running = (1 - momentum) * running + momentum * batch, where the batch's variance is the unbiased one.
// Mapping: kFinishGroups threads a channel, each with every kFinishGroups-th chunk in order, then a tree.
// Bytes: reads 8 a channel and chunk. Deterministic.
template <class T>
__global__ void batch_norm_statistics_kernel(Chunks chunks, const T* x, const float* means,
                                             const float* squares, float epsilon, float momentum,
                                             TrainedVectors to) {
  static __shared__ Moments shared[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * kFinishChannels + thread % kFinishChannels;
  Moments moments{};
  if (channel < chunks.channels) {
    for (std::int64_t chunk = thread / kFinishChannels; chunk < chunks.count; chunk += kFinishGroups) {
      const std::int64_t left = chunks.rows - chunk * chunks.rows_per_chunk;
      const float count = static_cast<float>(left < chunks.rows_per_chunk ? left : chunks.rows_per_chunk);
      const std::int64_t i = chunk * chunks.channels + channel;
      moments = merged(moments, {count, means[i], squares[i]});
    }
  }
  shared[thread] = moments;
  merge_block(kFinishChannels, [](int a, int b) { shared[a] = merged(shared[a], shared[b]); });
  if (thread >= kFinishChannels || channel >= chunks.channels) return;
  const float mean = to_float(x[channel]) + shared[thread].mean;
  const float variance = shared[thread].squares / static_cast<float>(chunks.rows);
  const float unbiased = shared[thread].squares / static_cast<float>(chunks.rows - 1);
  to.saved_mean[channel] = mean;
  to.saved_invstd[channel] = 1.0f / sqrtf(variance + epsilon);
  to.running_mean[channel] = fmaf(momentum, mean, (1.0f - momentum) * to.running_mean[channel]);
  to.running_var[channel] = fmaf(momentum, unbiased, (1.0f - momentum) * to.running_var[channel]);
}

// Rows that a thread loads before it stores the first of them. y may be x, so a compiler cannot move a load
// across a store; two loads on the way hide more of the memory's latency.
constexpr int kTogether = 2;

// y = relu?((x - mean) * invstd * gamma + beta + residual?). Mapping: see Tile; the coefficients of a
// thread's channels stay in registers. An element is read before it is written, by the same thread: y may be
// x or residual. Bytes: reads x (and residual), writes y, each once. Deterministic.
template <int V, class T>
__global__ void batch_norm_normalize_kernel(Chunks chunks, Statistics statistics, bool relu, const T* x,
                                            const float* gamma, const float* beta, const T* residual, T* y) {
  const Share<V> share(chunks);
  if (share.first >= share.end) return;
  float mean[V], scale[V], offset[V], invstd[V];
  statistics.load<V>(share.channel, mean, invstd);
  load_channels<V>(gamma + share.channel, scale);
  load_channels<V>(beta + share.channel, offset);
  for (int v = 0; v < V; ++v) scale[v] *= invstd[v];
  const std::int64_t step = Tile<V>::kRowLanes * chunks.channels;
  for (std::int64_t row = share.first; row < share.end; row += kTogether * Tile<V>::kRowLanes) {
    const std::int64_t i = row * chunks.channels + share.channel;
    float values[kTogether][V], added[kTogether][V] = {};
    for (int k = 0; k < kTogether; ++k) {
      const bool inside = row + k * Tile<V>::kRowLanes < share.end;
      load_floats<V>(x + i + (inside ? k * step : 0), values[k]);
      if (residual) load_floats<V>(residual + i + (inside ? k * step : 0), added[k]);
    }
    for (int k = 0; k < kTogether; ++k) {
      if (row + k * Tile<V>::kRowLanes >= share.end) break;
      for (int v = 0; v < V; ++v) {
        const float value = fmaf(values[k][v] - mean[v], scale[v], offset[v]) + added[k][v];
        values[k][v] = relu && value < 0.0f ? 0.0f : value;  // a NaN stays
      }
      store_floats<V>(y + i + k * step, values[k]);
    }
  }
}

struct Tensors {
  const TensorView &x, &gamma, &beta, &residual, &y;
};

template <int V, class T>
void normalize(Stream& stream, const Tensors& t, bool relu, const Statistics& statistics) {
  const Chunks chunks = make_chunks<V>(t.x, kApplyBlocks);
  const char* op = "batch_norm_forward";
  launch("batch_norm_normalize_kernel", stream, chunks.grid(), kThreads, batch_norm_normalize_kernel<V, T>,
         chunks, statistics, relu, device_pointer<T>(op, t.x), device_pointer<float>(op, t.gamma),
         device_pointer<float>(op, t.beta), device_pointer<T>(op, t.residual), device_pointer<T>(op, t.y));
}

template <int V, class T>
void train(Machine& machine, Stream& stream, const BatchNormOptions& options, const Tensors& t,
           const TrainedVectors& vectors) {
  const Chunks chunks = make_chunks<V>(t.x, kReduceBlocks);
  const std::int64_t partials = chunks.count * chunks.channels;
  const T* x = device_pointer<T>("batch_norm_forward_training", t.x);
  float* means = machine.workspace.array<float>(Area::sums, 2 * partials);
  launch("batch_norm_moments_kernel", stream, chunks.grid(), kThreads, batch_norm_moments_kernel<V, T>,
         chunks, x, means, means + partials);
  launch("batch_norm_statistics_kernel", stream, blocks_for(chunks.channels, kFinishChannels), kThreads,
         batch_norm_statistics_kernel<T>, chunks, x, means, means + partials, options.epsilon,
         options.momentum, vectors);
  normalize<V, T>(stream, t, options.relu,
                  {vectors.saved_mean, vectors.saved_invstd, options.epsilon, false});
}

}  // namespace

void batch_norm_forward_training(Machine& machine, Stream& stream, const BatchNormOptions& options,
                                 const TensorView& x, const TensorView& gamma, const TensorView& beta,
                                 const TensorView& residual, const TensorView& running_mean,
                                 const TensorView& running_var, const TensorView& saved_mean,
                                 const TensorView& saved_invstd, const TensorView& y) {
  contract::batch_norm_forward_training(x, gamma, beta, residual, running_mean, running_var, saved_mean,
                                        saved_invstd, y);
  const Tensors tensors{x, gamma, beta, residual, y};
  const char* op = "batch_norm_forward_training";
  const TrainedVectors vectors{running_mean.as<float>(), running_var.as<float>(),
                               device_pointer<float>(op, saved_mean),
                               device_pointer<float>(op, saved_invstd)};
  with_type_and_width(x, [&](auto type, auto width) {
    train<decltype(width)::value, decltype(type)>(machine, stream, options, tensors, vectors);
  });
}

void batch_norm_forward_evaluation(Stream& stream, const BatchNormOptions& options, const TensorView& x,
                                   const TensorView& gamma, const TensorView& beta,
                                   const TensorView& residual, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& y) {
  contract::batch_norm_forward_evaluation(x, gamma, beta, residual, running_mean, running_var, y);
  const Tensors tensors{x, gamma, beta, residual, y};
  const char* op = "batch_norm_forward_evaluation";
  const Statistics statistics{device_pointer<float>(op, running_mean), device_pointer<float>(op, running_var),
                              options.epsilon, true};
  with_type_and_width(x, [&](auto type, auto width) {
    normalize<decltype(width)::value, decltype(type)>(stream, tensors, options.relu, statistics);
  });
}

}  // namespace lockstep::cuda
