// Batch norm backward, fused with the backward of the residual add and ReLU. Three kernels: partial sums of
// chunks of rows, their sum, and dx. With running statistics (evaluation) dx does not depend on the sums.
#include "kernels/contracts.h"
#include "kernels/cuda/batch_norm.cuh"
#include "kernels/cuda/machine.h"
#include "kernels/cuda/ops.h"

namespace lockstep::cuda {
namespace {

// g: dy, or where ReLU is on (y is given) dy where y > 0 and 0 elsewhere.
template <int V, class T>
__device__ __forceinline__ void load_gradient(const T* y, const T* dy, std::int64_t i, float (&g)[V]) {
  load_floats<V>(dy + i, g);
  if (!y) return;
  float outputs[V];
  load_floats<V>(y + i, outputs);
  for (int v = 0; v < V; ++v) {
    if (!(outputs[v] > 0.0f)) g[v] = 0.0f;
  }
}

// For each chunk of rows and each channel: sum g and sum g * (x - mean). Mapping: see Tile; a thread sums its
// rows in order, the threads of a channel add up as a tree. Bytes: reads x, dy (and y) once; writes 8 a
// channel and chunk. Deterministic: the order of sums depends on the shape alone.
template <int V, class T>
__global__ void batch_norm_sums_kernel(Chunks chunks, const float* mean, const T* x, const T* y, const T* dy,
                                       float* sums_g, float* sums_gx) {
  static __shared__ float shared_g[V][kThreads], shared_gx[V][kThreads];
  const Share<V> share(chunks);
  const int thread = static_cast<int>(threadIdx.x);
  float center[V] = {}, sum_g[V] = {}, sum_gx[V] = {};
  if (share.first < share.end) {
    load_channels<V>(mean + share.channel, center);
  }
  for (std::int64_t row = share.first; row < share.end; row += Tile<V>::kRowLanes) {
    const std::int64_t i = row * chunks.channels + share.channel;
    float values[V], g[V];
    load_floats<V>(x + i, values);
    load_gradient<V>(y, dy, i, g);
    for (int v = 0; v < V; ++v) {
      sum_g[v] += g[v];
      sum_gx[v] = fmaf(g[v], values[v] - center[v], sum_gx[v]);
    }
  }
  for (int v = 0; v < V; ++v) {
    shared_g[v][thread] = sum_g[v];
    shared_gx[v][thread] = sum_gx[v];
  }
  merge_block(Tile<V>::kLanes, [](int a, int b) {
    for (int v = 0; v < V; ++v) {
      shared_g[v][a] += shared_g[v][b];
      shared_gx[v][a] += shared_gx[v][b];
    }
  });
  if (thread >= Tile<V>::kLanes || share.channel >= chunks.channels) return;
  for (int v = 0; v < V; ++v) {
    sums_g[blockIdx.y * chunks.channels + share.channel + v] = shared_g[v][thread];
    sums_gx[blockIdx.y * chunks.channels + share.channel + v] = shared_gx[v][thread];
  }
}

// What the sums become, for each channel: dgamma and dbeta, and what dx takes off, mean_g = sum g / rows and
// mean_gx = sum g * xhat / rows.
struct ParameterGradients {
  float *dgamma, *dbeta, *mean_g, *mean_gx;
};

// Adds up the chunks of a channel. dbeta = sum g; dgamma = invstd * sum g * (x - mean), both stored or added
// by mode. Mapping: kFinishGroups threads a channel, each with every kFinishGroups-th chunk in order, then a
// tree. Bytes: reads 8 a channel and chunk. Deterministic.
__global__ void batch_norm_parameters_kernel(Chunks chunks, Statistics statistics, const float* sums_g,
                                             const float* sums_gx, bool accumulate, ParameterGradients to) {
  static __shared__ float shared_g[kThreads], shared_gx[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * kFinishChannels + thread % kFinishChannels;
  float sum_g = 0.0f, sum_gx = 0.0f;
  if (channel < chunks.channels) {
    for (std::int64_t chunk = thread / kFinishChannels; chunk < chunks.count; chunk += kFinishGroups) {
      sum_g += sums_g[chunk * chunks.channels + channel];
      sum_gx += sums_gx[chunk * chunks.channels + channel];
    }
  }
  shared_g[thread] = sum_g;
  shared_gx[thread] = sum_gx;
  merge_block(kFinishChannels, [](int a, int b) {
    shared_g[a] += shared_g[b];
    shared_gx[a] += shared_gx[b];
  });
  if (thread >= kFinishChannels || channel >= chunks.channels) return;
  const float dbeta = shared_g[thread];
  const float dgamma = shared_gx[thread] * statistics.inverse_deviation(statistics.spread[channel]);
  const float rows = static_cast<float>(chunks.rows);
  to.dbeta[channel] = accumulate ? to.dbeta[channel] + dbeta : dbeta;
  to.dgamma[channel] = accumulate ? to.dgamma[channel] + dgamma : dgamma;
  to.mean_g[channel] = dbeta / rows;
  to.mean_gx[channel] = dgamma / rows;
}

// dx = gamma * invstd * (g - mean_g - xhat * mean_gx), xhat = (x - mean) * invstd; dresidual = g, where
// given. With the statistics of evaluation, which are constants, dx = gamma * invstd * g. Mapping: see Tile;
// the coefficients of a thread's channels stay in registers. All that an element needs is read before
// anything is written, by the same thread: dx may be dy or x, dresidual may be dy. Bytes: reads x, dy (and
// y), writes dx (and dresidual), each once. Deterministic.
template <int V, class T>
__global__ void batch_norm_gradient_kernel(Chunks chunks, Statistics statistics, const float* gamma,
                                           const float* mean_g, const float* mean_gx, const T* x, const T* y,
                                           const T* dy, T* dx, T* dresidual) {
  const Share<V> share(chunks);
  if (share.first >= share.end) return;
  const bool constants = statistics.spread_is_variance;
  // dx = scale * (g - offset - (x - mean) * slope)
  float mean[V], scale[V], offset[V] = {}, slope[V] = {}, invstd[V];
  statistics.load<V>(share.channel, mean, invstd);
  load_channels<V>(gamma + share.channel, scale);
  if (!constants) {
    load_channels<V>(mean_g + share.channel, offset);
    load_channels<V>(mean_gx + share.channel, slope);
  }
  for (int v = 0; v < V; ++v) {
    scale[v] *= invstd[v];
    slope[v] *= invstd[v];
  }
  for (std::int64_t row = share.first; row < share.end; row += Tile<V>::kRowLanes) {
    const std::int64_t i = row * chunks.channels + share.channel;
    float values[V] = {}, g[V];
    if (!constants) load_floats<V>(x + i, values);
    load_gradient<V>(y, dy, i, g);
    if (dresidual) store_floats<V>(dresidual + i, g);
    for (int v = 0; v < V; ++v) {
      const float centered = constants ? g[v] : fmaf(mean[v] - values[v], slope[v], g[v] - offset[v]);
      values[v] = scale[v] * centered;
    }
    store_floats<V>(dx + i, values);
  }
}

struct Tensors {
  const TensorView &x, &y, &dy, &gamma, &dx, &dresidual, &dgamma, &dbeta;
};

template <int V, class T>
void backward(Machine& machine, Stream& stream, bool relu, const Tensors& t, const Statistics& statistics,
              GradMode mode) {
  const char* op = "batch_norm_backward";
  const T* x = device_pointer<T>(op, t.x);
  const T* y = relu ? device_pointer<T>(op, t.y) : nullptr;
  const T* dy = device_pointer<T>(op, t.dy);
  const float* gamma = device_pointer<float>(op, t.gamma);
  const Chunks chunks = make_chunks<V>(t.x, kReduceBlocks);
  const std::int64_t partials = chunks.count * chunks.channels;
  float* sums = machine.workspace.array<float>(Area::sums, 2 * partials + 2 * chunks.channels);
  float* means = sums + 2 * partials;  // on 16 bytes where V is a vector
  launch("batch_norm_sums_kernel", stream, chunks.grid(), kThreads, batch_norm_sums_kernel<V, T>, chunks,
         statistics.mean, x, y, dy, sums, sums + partials);
  launch("batch_norm_parameters_kernel", stream, blocks_for(chunks.channels, kFinishChannels), kThreads,
         batch_norm_parameters_kernel, chunks, statistics, sums, sums + partials,
         mode == GradMode::accumulate,
         ParameterGradients{t.dgamma.as<float>(), t.dbeta.as<float>(), means, means + chunks.channels});
  const Chunks apply = make_chunks<V>(t.x, kApplyBlocks);
  launch("batch_norm_gradient_kernel", stream, apply.grid(), kThreads, batch_norm_gradient_kernel<V, T>,
         apply, statistics, gamma, means, means + chunks.channels, x, y, dy, device_pointer<T>(op, t.dx),
         device_pointer<T>(op, t.dresidual));
}

}  // namespace

void batch_norm_backward(Machine& machine, Stream& stream, const BatchNormOptions& options,
                         const TensorView& x, const TensorView& y, const TensorView& dy,
                         const TensorView& gamma, const TensorView& saved_mean,
                         const TensorView& saved_invstd, const TensorView& dx, const TensorView& dresidual,
                         const TensorView& dgamma, const TensorView& dbeta, GradMode parameter_mode) {
  contract::batch_norm_backward(options, x, y, dy, gamma, saved_mean, saved_invstd, dx, dresidual, dgamma,
                                dbeta);
  const char* op = "batch_norm_backward";
  const Tensors tensors{x, y, dy, gamma, dx, dresidual, dgamma, dbeta};
  const Statistics statistics{device_pointer<float>(op, saved_mean), device_pointer<float>(op, saved_invstd),
                              options.epsilon, false};
  with_type_and_width(x, [&](auto type, auto width) {
    backward<decltype(width)::value, decltype(type)>(machine, stream, options.relu, tensors, statistics,
                                                     parameter_mode);
  });
}

void batch_norm_backward_evaluation(Machine& machine, Stream& stream, const BatchNormOptions& options,
                                    const TensorView& x, const TensorView& y, const TensorView& dy,
                                    const TensorView& gamma, const TensorView& running_mean,
                                    const TensorView& running_var, const TensorView& dx,
                                    const TensorView& dresidual, const TensorView& dgamma,
                                    const TensorView& dbeta, GradMode parameter_mode) {
  contract::batch_norm_backward_evaluation(options, x, y, dy, gamma, running_mean, running_var, dx, dresidual,
                                           dgamma, dbeta);
  const char* op = "batch_norm_backward_evaluation";
  const Tensors tensors{x, y, dy, gamma, dx, dresidual, dgamma, dbeta};
  const Statistics statistics{device_pointer<float>(op, running_mean), device_pointer<float>(op, running_var),
                              options.epsilon, true};
  with_type_and_width(x, [&](auto type, auto width) {
    backward<decltype(width)::value, decltype(type)>(machine, stream, options.relu, tensors, statistics,
                                                     parameter_mode);
  });
}

}  // namespace lockstep::cuda
