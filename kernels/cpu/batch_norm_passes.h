// Batch norm's passes over the rows of a block of up to 64 channels, and what happens to each channel's sums
// between two passes. Internal to batch_norm*.cpp, which share the passes among threads.
//
// Rows are summed in chunks of 32: f32 within a chunk, double across chunks, so the error does not grow with
// the batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/machine.h"
#include "kernels/cpu/vec.h"

namespace lockstep::cpu::batch_norm {

using Index = std::int64_t;
constexpr Index kChunk = 32;  // rows

LOCKSTEP_INLINE VecDouble to_double(Vec value) {
  return __builtin_convertvector(value, VecDouble);
}

// Calls body(first channel, vectors in the block, lanes) for blocks of 4, 2 or 1 vectors of channels in
// [begin, end).
template <class Body>
LOCKSTEP_INLINE void for_blocks(Index begin, Index end, const Body& body) {
  Index c = begin;
  for (; c + 4 * kLanes <= end; c += 4 * kLanes) body(c, std::integral_constant<int, 4>{}, AllLanes{});
  for (; c + 2 * kLanes <= end; c += 2 * kLanes) body(c, std::integral_constant<int, 2>{}, AllLanes{});
  for (; c + kLanes <= end; c += kLanes) body(c, std::integral_constant<int, 1>{}, AllLanes{});
  if (c < end) body(c, std::integral_constant<int, 1>{}, SomeLanes{end - c});
}

// The vectors of one block of channels, for example per-channel coefficients.
template <int kVecs>
struct Block {
  Vec v[kVecs];
  Vec& operator[](int i) { return v[i]; }
  const Vec& operator[](int i) const { return v[i]; }
};

template <int kVecs, class Lanes>
LOCKSTEP_INLINE Block<kVecs> load_block(const float* from, Lanes lanes) {
  Block<kVecs> block;
  for (int i = 0; i < kVecs; ++i) block[i] = load(from + i * kLanes, lanes);
  return block;
}

// --- statistics ---

// Mean and sum of squared deviations of each chunk on its own (two passes, the second one in the first-level
// cache), merged in double (Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983): a
// large mean does not cancel anything.
template <int kVecs, class T, class Lanes>
LOCKSTEP_INLINE void moments(const T* x, Index rows, Index channels, Lanes lanes, double* mean,
                             double* deviation) {
  VecDouble mean_so_far[kVecs] = {}, deviations[kVecs] = {};
  for (Index first = 0; first < rows; first += kChunk) {
    const Index count = std::min(kChunk, rows - first);
    const T* chunk = x + first * channels;
    Block<kVecs> sum = {}, center, square = {};
    for (Index r = 0; r < count; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) sum[i] += load(chunk + r * channels + i * kLanes, lanes);
    }
    const float inverse = 1.0f / static_cast<float>(count);
    Block<kVecs> rest = {};
    for (int i = 0; i < kVecs; ++i) center[i] = sum[i] * inverse;
    for (Index r = 0; r < count; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        const Vec d = load(chunk + r * channels + i * kLanes, lanes) - center[i];
        rest[i] += d;
        square[i] += d * d;
      }
    }
    // `rest` is what rounding left out of the mean.
    const double weight = static_cast<double>(count) / static_cast<double>(first + count);
    const double n = static_cast<double>(count);
    for (int i = 0; i < kVecs; ++i) {
      const VecDouble off = to_double(rest[i]) / n;
      const VecDouble delta = to_double(center[i]) + off - mean_so_far[i];
      mean_so_far[i] += delta * weight;
      deviations[i] +=
          to_double(square[i]) - off * off * n + delta * delta * (static_cast<double>(first) * weight);
    }
  }
  for (int i = 0; i < kVecs; ++i) {
    for (Index j = 0; j < lanes.count(); ++j) {
      mean[i * kLanes + j] = mean_so_far[i][j];
      deviation[i * kLanes + j] = deviations[i][j];
    }
  }
}

// --- forward ---

template <class T>
struct Forward {
  BatchNormOptions options;
  Index rows, channels;
  const T* x;
  const T* residual;
  const float* gamma;
  const float* beta;
  float* running_mean;
  float* running_var;
  float* saved_mean;
  float* saved_invstd;
  T* y;
};

// y = relu?((x - mean) * scale + beta + residual?)
template <bool kResidual, bool kRelu, int kVecs, class T, class Lanes>
LOCKSTEP_INLINE void normalize(const Forward<T>& f, Index c, const float* mean, const float* scale,
                               Lanes lanes) {
  const auto m = load_block<kVecs>(mean, lanes), s = load_block<kVecs>(scale, lanes);
  const auto b = load_block<kVecs>(f.beta + c, lanes);
  // Copies: a store might change what a reference refers to, so its members would be read again for each
  // vector.
  const T *const x = f.x + c, *const residual = f.residual + c;
  T* const y = f.y + c;
  const Index end = f.rows * f.channels, step = f.channels;
  for (Index row = 0; row < end; row += step) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      const Index at = row + i * kLanes;
      Vec value = (load(x + at, lanes) - m[i]) * s[i] + b[i];
      if constexpr (kResidual) value += load(residual + at, lanes);
      if constexpr (kRelu) value = relu(value);
      store(y + at, value, lanes);
    }
  }
}

template <int kVecs, class T, class Lanes>
LOCKSTEP_INLINE void normalize(const Forward<T>& f, Index c, const float* mean, const float* scale,
                               Lanes lanes) {
  if (f.residual != nullptr) {
    if (f.options.relu) return normalize<true, true, kVecs>(f, c, mean, scale, lanes);
    return normalize<true, false, kVecs>(f, c, mean, scale, lanes);
  }
  if (f.options.relu) return normalize<false, true, kVecs>(f, c, mean, scale, lanes);
  normalize<false, false, kVecs>(f, c, mean, scale, lanes);
}

// From the mean and the sum of squared deviations of `size` channels from c on: what is saved, the running
// statistics, and the coefficients of the elementwise pass.
template <class T>
void finish_statistics(const Forward<T>& f, Index c, Index size, const double* mean, const double* deviation,
                       float* mean_out, float* scale_out) {
  const double rows = static_cast<double>(f.rows), momentum = static_cast<double>(f.options.momentum);
  for (Index j = 0; j < size; ++j) {
    const double variance = deviation[j] / rows;
    const double invstd = 1.0 / std::sqrt(variance + static_cast<double>(f.options.epsilon));
    const auto moved = [&](float& running, double batch) {
      running = static_cast<float>((1.0 - momentum) * static_cast<double>(running) + momentum * batch);
    };
    moved(f.running_mean[c + j], mean[j]);
    moved(f.running_var[c + j], variance * rows / (rows - 1.0));
    f.saved_mean[c + j] = mean_out[j] = static_cast<float>(mean[j]);
    f.saved_invstd[c + j] = static_cast<float>(invstd);
    scale_out[j] = static_cast<float>(static_cast<double>(f.gamma[c + j]) * invstd);
  }
}

// --- backward ---

template <class T>
struct Backward {
  BatchNormOptions options;
  bool training;
  Index rows, channels;
  const T* x;
  const T* y;
  const T* dy;
  const float* gamma;
  const float* mean;
  const float* deviation;  // invstd where training, else the running variance
  T* dx;
  T* dresidual;
  float* dgamma;
  float* dbeta;
  bool accumulate;
};

template <bool kRelu, class T, class Lanes>
LOCKSTEP_INLINE Vec masked(const T* y, const T* dy, Lanes lanes) {
  const Vec g = load(dy, lanes);
  if constexpr (!kRelu) return g;
  return load(y, lanes) > 0.0f ? g : Vec{};
}

// sum g, sum g * (x - mean)
template <bool kRelu, int kVecs, class T, class Lanes>
LOCKSTEP_INLINE void gradient_sums(const Backward<T>& b, Index c, Lanes lanes, double* g_sum,
                                   double* gx_sum) {
  const auto mean = load_block<kVecs>(b.mean + c, lanes);
  const T *const x = b.x + c, *const y = b.y + c, *const dy = b.dy + c;
  const Index step = b.channels;
  VecDouble total_g[kVecs] = {}, total_gx[kVecs] = {};
  for (Index first = 0; first < b.rows; first += kChunk) {
    const Index last = std::min(first + kChunk, b.rows);
    Block<kVecs> sum_g = {}, sum_gx = {};
    for (Index r = first; r < last; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        const Index at = r * step + i * kLanes;
        const Vec g = masked<kRelu>(y + at, dy + at, lanes);
        sum_g[i] += g;
        sum_gx[i] += g * (load(x + at, lanes) - mean[i]);
      }
    }
    for (int i = 0; i < kVecs; ++i) {
      total_g[i] += to_double(sum_g[i]);
      total_gx[i] += to_double(sum_gx[i]);
    }
  }
  for (int i = 0; i < kVecs; ++i) {
    for (Index j = 0; j < lanes.count(); ++j) {
      g_sum[i * kLanes + j] = total_g[i][j];
      gx_sum[i * kLanes + j] = total_gx[i][j];
    }
  }
}

// dx = scale * (g - mean_g - (x - mean) * slope), where slope = invstd * dgamma / rows
template <bool kRelu, bool kResidual, int kVecs, class T, class Lanes>
LOCKSTEP_INLINE void input_gradient(const Backward<T>& b, Index c, const float* scale_at,
                                    const float* mean_g_at, const float* slope_at, Lanes lanes) {
  const auto mean = load_block<kVecs>(b.mean + c, lanes), scale = load_block<kVecs>(scale_at, lanes);
  const auto mean_g = load_block<kVecs>(mean_g_at, lanes), slope = load_block<kVecs>(slope_at, lanes);
  const T *const x = b.x + c, *const y = b.y + c, *const dy = b.dy + c;
  T *const dx = b.dx + c, *const dresidual = b.dresidual + c;
  const Index end = b.rows * b.channels, step = b.channels;
  for (Index row = 0; row < end; row += step) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      const Index at = row + i * kLanes;
      const Vec g = masked<kRelu>(y + at, dy + at, lanes);
      const Vec value = load(x + at, lanes);
      if constexpr (kResidual) store(dresidual + at, g, lanes);
      store(dx + at, scale[i] * (g - mean_g[i] - (value - mean[i]) * slope[i]), lanes);
    }
  }
}

// From the two sums of `size` channels from c on: dbeta = sum g, dgamma = sum g * (x - mean) * invstd, and
// the coefficients of the elementwise pass.
template <class T>
void finish_gradients(const Backward<T>& b, Index c, Index size, const double* g_sum, const double* gx_sum,
                      float* scale, float* mean_g, float* slope) {
  const double rows = static_cast<double>(b.rows);
  for (Index j = 0; j < size; ++j) {
    const float invstd =
        b.training ? b.deviation[c + j] : 1.0f / std::sqrt(b.deviation[c + j] + b.options.epsilon);
    const double dgamma = gx_sum[j] * static_cast<double>(invstd);
    scale[j] = b.gamma[c + j] * invstd;
    // In evaluation the statistics are constants.
    mean_g[j] = b.training ? static_cast<float>(g_sum[j] / rows) : 0.0f;
    slope[j] = b.training ? static_cast<float>(dgamma * static_cast<double>(invstd) / rows) : 0.0f;
    const auto add_or_set = [&](float& to, double value) {
      to = static_cast<float>(b.accumulate ? static_cast<double>(to) + value : value);
    };
    add_or_set(b.dbeta[c + j], g_sum[j]);
    add_or_set(b.dgamma[c + j], dgamma);
  }
}

template <bool kRelu, int kVecs, class T, class Lanes>
LOCKSTEP_INLINE void input_gradient(const Backward<T>& b, Index c, const float* scale, const float* mean_g,
                                    const float* slope, Lanes lanes) {
  if (b.dresidual != nullptr) {
    input_gradient<kRelu, true, kVecs>(b, c, scale, mean_g, slope, lanes);
  } else {
    input_gradient<kRelu, false, kVecs>(b, c, scale, mean_g, slope, lanes);
  }
}

// --- threads that share rows (batch_norm_by_rows.cpp) ---

// Whether rows enough for every thread make that the better way.
bool shares_rows(const Threads& threads, Index rows);
// The ops of training and both backward ops. T: float, bfloat16.
template <class T>
void forward_by_rows(Machine& machine, const Forward<T>& f);
template <class T>
void backward_by_rows(Machine& machine, const Backward<T>& b);

}  // namespace lockstep::cpu::batch_norm
