// Max pooling with the position of each maximum, and the mean over an image.
#include <algorithm>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/vec.h"

namespace lockstep::cpu {
namespace {

using Index = std::int64_t;

bool inside(Index position, Index size) {
  return position >= 0 && position < size;
}

// One output pixel. The first maximum in row order wins; a NaN is larger than everything, as in PyTorch.
template <class T>
void max_of_window(const PoolShape& s, const T* image, Index top, Index left, T* y, std::uint8_t* index) {
  for_lanes(0, s.c, [&](Index c, auto lanes) {
    Vec maximum{};
    VecInt best = VecInt{} - 1;
    for (Index position = 0; position < s.kernel * s.kernel; ++position) {
      const Index row = top + position / s.kernel, column = left + position % s.kernel;
      if (!inside(row, s.h) || !inside(column, s.w)) continue;  // padding is minus infinity
      const Vec value = load(image + (row * s.w + column) * s.c + c, lanes);
      const VecInt wins = (best < 0) | (value > maximum) | ((value != value) & (maximum == maximum));
      maximum = wins ? value : maximum;
      best = wins ? VecInt{} + static_cast<std::int32_t>(position) : best;
    }
    store(y + c, maximum, lanes);
    store_raw(index + c, __builtin_convertvector(best, VecByte), lanes);
  });
}

template <class T>
void max_forward(const Threads& threads, const PoolShape& s, const T* x, T* y, std::uint8_t* index) {
  const Index out_h = s.out_h(), out_w = s.out_w();
  threads.split(s.n * out_h, 1, s.n * s.h * s.w * s.c * 4, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const T* image = x + i / out_h * s.h * s.w * s.c;
      for (Index q = 0; q < out_w; ++q) {
        const Index at = (i * out_w + q) * s.c;
        max_of_window(s, image, i % out_h * s.stride - s.padding, q * s.stride - s.padding, y + at,
                      index + at);
      }
    }
  });
}

// The windows [first, end) along one side that meet an input position.
struct Windows {
  Windows(const PoolShape& s, Index position, Index out)
      : first(position + s.padding < s.kernel ? 0 : (position + s.padding - s.kernel) / s.stride + 1),
        end(std::min(out, (position + s.padding) / s.stride + 1)) {}
  Index first, end;
};

// One input pixel collects the gradients of all windows in which it was the maximum.
template <class T>
void gather_gradient(const PoolShape& s, const T* dy, const std::uint8_t* index, Index row, Index column,
                     T* dx) {
  const Index out_w = s.out_w();
  const Windows rows(s, row, s.out_h()), columns(s, column, out_w);
  for_lanes(0, s.c, [&](Index c, auto lanes) {
    Vec sum{};
    for (Index p = rows.first; p < rows.end; ++p) {
      for (Index q = columns.first; q < columns.end; ++q) {
        const Index at = (p * out_w + q) * s.c + c;
        const Index position =
            (row + s.padding - p * s.stride) * s.kernel + column + s.padding - q * s.stride;
        const VecInt winner = __builtin_convertvector(load_raw<VecByte>(index + at, lanes), VecInt);
        sum += winner == static_cast<std::int32_t>(position) ? load(dy + at, lanes) : Vec{};
      }
    }
    store(dx + c, sum, lanes);
  });
}

template <class T>
void max_backward(const Threads& threads, const PoolShape& s, const T* dy, const std::uint8_t* index, T* dx) {
  const Index image = s.out_h() * s.out_w() * s.c;
  threads.split(s.n * s.h, 1, s.n * s.h * s.w * s.c * 4, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index n = i / s.h;
      for (Index column = 0; column < s.w; ++column) {
        gather_gradient(s, dy + n * image, index + n * image, i % s.h, column, dx + (i * s.w + column) * s.c);
      }
    }
  });
}

}  // namespace

void max_pool_forward(Machine& machine, const PoolShape& shape, const TensorView& x, const TensorView& y,
                      const TensorView& index) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    max_forward(machine.threads, shape, x.as<T>(), y.as<T>(), index.as<std::uint8_t>());
  });
}

void max_pool_backward(Machine& machine, const PoolShape& shape, const TensorView& dy,
                       const TensorView& index, const TensorView& dx) {
  with_compute_type(dy.dtype, [&](auto type) {
    using T = decltype(type);
    max_backward(machine.threads, shape, dy.as<T>(), index.as<std::uint8_t>(), dx.as<T>());
  });
}

void global_average_pool_forward(Machine& machine, const TensorView& x, const TensorView& y) {
  const Index pixels = x.shape[1] * x.shape[2], channels = x.shape[3];
  const float scale = 1.0f / static_cast<float>(pixels);
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    machine.threads.split(x.shape[0], 1, x.bytes(), [&](Index begin, Index end) {
      for (Index n = begin; n < end; ++n) {
        for_lanes(0, channels, [&](Index c, auto lanes) {
          Vec sum{};
          for (Index p = 0; p < pixels; ++p) sum += load(x.as<T>() + (n * pixels + p) * channels + c, lanes);
          store(y.as<T>() + n * channels + c, sum * scale, lanes);
        });
      }
    });
  });
}

void global_average_pool_backward(Machine& machine, const TensorView& dy, const TensorView& dx) {
  const Index pixels = dx.shape[1] * dx.shape[2], channels = dx.shape[3];
  const float scale = 1.0f / static_cast<float>(pixels);
  with_compute_type(dx.dtype, [&](auto type) {
    using T = decltype(type);
    machine.threads.split(dx.shape[0] * pixels, 1, dx.bytes(), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        for_lanes(0, channels, [&](Index c, auto lanes) {
          store(dx.as<T>() + i * channels + c, load(dy.as<T>() + i / pixels * channels + c, lanes) * scale,
                lanes);
        });
      }
    });
  });
}

}  // namespace lockstep::cpu
