// Max pooling with the position of each maximum, and the mean over an image.
#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

// The positions of V channels, moved by one instruction.
template <int V>
struct alignas(V) Positions {
  std::uint8_t values[V];
};

// PoolShape in 32 bits: the coordinates of one image. Offsets into a tensor are 64 bits wide.
struct Pooling {
  int h, w, out_h, out_w, c, kernel, stride, padding;

  explicit Pooling(const PoolShape& s)
      : h(static_cast<int>(s.h)),
        w(static_cast<int>(s.w)),
        out_h(static_cast<int>(s.out_h())),
        out_w(static_cast<int>(s.out_w())),
        c(static_cast<int>(s.c)),
        kernel(static_cast<int>(s.kernel)),
        stride(static_cast<int>(s.stride)),
        padding(static_cast<int>(s.padding)) {
    LOCKSTEP_CHECK((s.w + s.kernel + s.stride) * s.c < (std::int64_t{1} << 31),
                   "max_pool: a row of {} x {} is too long", s.w, s.c);
    LOCKSTEP_CHECK(s.h + s.kernel + s.stride < (std::int64_t{1} << 30), "max_pool: {} rows are too many",
                   s.h);
  }
};

// y = maximum of the window, index = row * kernel + column of the first one in the window; a NaN is larger
// than all numbers, padding smaller. Mapping: a block a row of outputs of one picture, a thread V
// neighbouring channels of one output at a time. Bytes: reads each x about once (windows that overlap meet in
// the cache), writes y and a byte for each. Deterministic: no output depends on another.
template <int V, class T>
__global__ void max_pool_forward_kernel(Pooling s, const T* x, T* y, std::uint8_t* index) {
  const int p = static_cast<int>(blockIdx.x % static_cast<unsigned>(s.out_h)), vectors = s.c / V;
  const std::int64_t n = blockIdx.x / static_cast<unsigned>(s.out_h);
  for (int item = static_cast<int>(threadIdx.x); item < s.out_w * vectors; item += kThreads) {
    const int q = item / vectors, channel = item % vectors * V;
    float maximum[V] = {};
    Positions<V> best{};
    bool first = true;
    for (int r = 0; r < s.kernel; ++r) {
      const int row = p * s.stride - s.padding + r;
      if (row < 0 || row >= s.h) continue;
      for (int k = 0; k < s.kernel; ++k) {
        const int column = q * s.stride - s.padding + k;
        if (column < 0 || column >= s.w) continue;
        float values[V];
        load_floats<V>(x + ((n * s.h + row) * s.w + column) * s.c + channel, values);
        for (int v = 0; v < V; ++v) {
          const bool first_nan = values[v] != values[v] && maximum[v] == maximum[v];
          if (first || values[v] > maximum[v] || first_nan) {
            maximum[v] = values[v];
            best.values[v] = static_cast<std::uint8_t>(r * s.kernel + k);
          }
        }
        first = false;
      }
    }
    const std::int64_t i = ((n * s.out_h + p) * s.out_w + q) * s.c + channel;
    store_floats<V>(y + i, maximum);
    *reinterpret_cast<Positions<V>*>(index + i) = best;
  }
}

// dx = sum of dy over the windows that chose this pixel. A pixel asks all windows that hold it, so that it
// has one writer and no atomics are needed. Mapping: a block a row of pixels of one picture, a thread V
// neighbouring channels of one pixel at a time. Bytes: reads dy and index about once (a pixel's windows meet
// in the cache), writes dx. Deterministic: windows in row order.
template <int V, class T>
__global__ void max_pool_backward_kernel(Pooling s, const T* dy, const std::uint8_t* index, T* dx) {
  const int row = static_cast<int>(blockIdx.x % static_cast<unsigned>(s.h)), vectors = s.c / V;
  const std::int64_t n = blockIdx.x / static_cast<unsigned>(s.h);
  // Windows p with p * stride <= row + padding < p * stride + kernel.
  const int bottom = row + s.padding;
  const int first_p = bottom < s.kernel ? 0 : (bottom - s.kernel) / s.stride + 1;
  for (int item = static_cast<int>(threadIdx.x); item < s.w * vectors; item += kThreads) {
    const int column = item / vectors, channel = item % vectors * V;
    const int right = column + s.padding;
    const int first_q = right < s.kernel ? 0 : (right - s.kernel) / s.stride + 1;
    float sum[V] = {};
    for (int p = first_p; p < s.out_h && p * s.stride <= bottom; ++p) {
      for (int q = first_q; q < s.out_w && q * s.stride <= right; ++q) {
        const int position = (bottom - p * s.stride) * s.kernel + right - q * s.stride;
        const std::int64_t i = ((n * s.out_h + p) * s.out_w + q) * s.c + channel;
        const auto chosen = *reinterpret_cast<const Positions<V>*>(index + i);
        float g[V];
        load_floats<V>(dy + i, g);
        for (int v = 0; v < V; ++v) sum[v] += chosen.values[v] == position ? g[v] : 0.0f;
      }
    }
    store_floats<V>(dx + ((n * s.h + row) * s.w + column) * s.c + channel, sum);
  }
}

// y[n,c] = mean of x[n,pixel,c] over pixels. Mapping: a thread V neighbouring channels of one picture; it
// walks over the pixels, and neighbours read neighbouring bytes. Bytes: reads x, writes y, once.
// Deterministic: pixels in order.
template <int V, class T>
__global__ void global_average_pool_forward_kernel(const T* x, T* y, std::int64_t pixels,
                                                   std::int64_t channels, std::int64_t count) {
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V;
  if (i >= count) return;
  const std::int64_t n = i / channels;
  const T* column = x + n * pixels * channels + (i - n * channels);
  float sum[V] = {};
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    float values[V];
    load_floats<V>(column + pixel * channels, values);
    for (int v = 0; v < V; ++v) sum[v] += values[v];
  }
  for (int v = 0; v < V; ++v) sum[v] /= static_cast<float>(pixels);
  store_floats<V>(y + i, sum);
}

// dx[n,pixel,c] = dy[n,c] / pixels. Mapping as forward. Bytes: reads dy, writes dx, once. Deterministic.
template <int V, class T>
__global__ void global_average_pool_backward_kernel(const T* dy, T* dx, std::int64_t pixels,
                                                    std::int64_t channels, std::int64_t count) {
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V;
  if (i >= count) return;
  const std::int64_t n = i / channels;
  T* column = dx + n * pixels * channels + (i - n * channels);
  float values[V];
  load_floats<V>(dy + i, values);
  for (int v = 0; v < V; ++v) values[v] /= static_cast<float>(pixels);
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) store_floats<V>(column + pixel * channels, values);
}

template <int V, class T>
void max_forward(Stream& stream, const PoolShape& s, const TensorView& x, const TensorView& y,
                 const TensorView& index) {
  const char* op = "max_pool_forward";
  launch("max_pool_forward_kernel", stream, blocks_for(s.n * s.out_h(), 1), kThreads,
         max_pool_forward_kernel<V, T>, Pooling(s), device_pointer<T>(op, x), device_pointer<T>(op, y),
         device_pointer<std::uint8_t>(op, index));
}

template <int V, class T>
void max_backward(Stream& stream, const PoolShape& s, const TensorView& dy, const TensorView& index,
                  const TensorView& dx) {
  const char* op = "max_pool_backward";
  launch("max_pool_backward_kernel", stream, blocks_for(s.n * s.h, 1), kThreads,
         max_pool_backward_kernel<V, T>, Pooling(s), device_pointer<T>(op, dy),
         device_pointer<std::uint8_t>(op, index), device_pointer<T>(op, dx));
}

template <int V, class T>
void average_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  const char* op = "global_average_pool_forward";
  launch("global_average_pool_forward_kernel", stream, blocks_for(y.numel(), kThreads * V), kThreads,
         global_average_pool_forward_kernel<V, T>, device_pointer<T>(op, x), device_pointer<T>(op, y),
         x.shape[1] * x.shape[2], x.shape[3], y.numel());
}

template <int V, class T>
void average_backward(Stream& stream, const TensorView& dy, const TensorView& dx) {
  const char* op = "global_average_pool_backward";
  launch("global_average_pool_backward_kernel", stream, blocks_for(dy.numel(), kThreads * V), kThreads,
         global_average_pool_backward_kernel<V, T>, device_pointer<T>(op, dy), device_pointer<T>(op, dx),
         dx.shape[1] * dx.shape[2], dx.shape[3], dy.numel());
}

}  // namespace

void max_pool_forward(Stream& stream, const PoolShape& shape, const TensorView& x, const TensorView& y,
                      const TensorView& index) {
  contract::max_pool_forward(shape, x, y, index);
  with_type_and_width(x, [&](auto type, auto width) {
    max_forward<decltype(width)::value, decltype(type)>(stream, shape, x, y, index);
  });
}

void max_pool_backward(Stream& stream, const PoolShape& shape, const TensorView& dy, const TensorView& index,
                       const TensorView& dx) {
  contract::max_pool_backward(shape, dy, index, dx);
  with_type_and_width(dx, [&](auto type, auto width) {
    max_backward<decltype(width)::value, decltype(type)>(stream, shape, dy, index, dx);
  });
}

void global_average_pool_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  contract::global_average_pool_forward(x, y);
  with_type_and_width(x, [&](auto type, auto width) {
    average_forward<decltype(width)::value, decltype(type)>(stream, x, y);
  });
}

void global_average_pool_backward(Stream& stream, const TensorView& dy, const TensorView& dx) {
  contract::global_average_pool_backward(dy, dx);
  with_type_and_width(dx, [&](auto type, auto width) {
    average_backward<decltype(width)::value, decltype(type)>(stream, dy, dx);
  });
}

}  // namespace lockstep::cuda
