// Max pooling with the position of each maximum, and the mean over an image.
#include <cmath>
#include <vector>

#include "kernels/reference/numeric.h"
#include "kernels/reference/ops.h"

namespace lockstep::reference {
namespace {

using Index = std::int64_t;

bool inside(Index position, Index size) {
  return position >= 0 && position < size;
}

template <class T>
void max_forward(const PoolShape& s, const T* x, T* y, std::uint8_t* index) {
  for (Index n = 0; n < s.n; ++n) {
    for (Index p = 0; p < s.out_h(); ++p) {
      for (Index q = 0; q < s.out_w(); ++q) {
        for (Index c = 0; c < s.c; ++c) {
          Index best = -1;  // position in the window
          T maximum{};
          for (Index position = 0; position < s.kernel * s.kernel; ++position) {
            const Index row = p * s.stride - s.padding + position / s.kernel;
            const Index column = q * s.stride - s.padding + position % s.kernel;
            if (!inside(row, s.h) || !inside(column, s.w)) continue;  // padding is minus infinity
            const T value = x[((n * s.h + row) * s.w + column) * s.c + c];
            const bool first_nan = std::isnan(load(value)) && !std::isnan(load(maximum));
            if (best < 0 || load(value) > load(maximum) || first_nan) {
              best = position;
              maximum = value;
            }
          }
          const Index i = ((n * s.out_h() + p) * s.out_w() + q) * s.c + c;
          y[i] = maximum;
          index[i] = static_cast<std::uint8_t>(best);
        }
      }
    }
  }
}

// Each dy goes to the pixel that was the maximum; where windows overlap, a pixel collects several.
template <class T>
void max_backward(const PoolShape& s, const T* dy, const std::uint8_t* index, T* dx) {
  std::vector<double> sum(static_cast<std::size_t>(s.h * s.w * s.c));
  for (Index n = 0; n < s.n; ++n) {
    sum.assign(sum.size(), 0.0);
    for (Index p = 0; p < s.out_h(); ++p) {
      for (Index q = 0; q < s.out_w(); ++q) {
        for (Index c = 0; c < s.c; ++c) {
          const Index i = ((n * s.out_h() + p) * s.out_w() + q) * s.c + c;
          const Index row = p * s.stride - s.padding + index[i] / s.kernel;
          const Index column = q * s.stride - s.padding + index[i] % s.kernel;
          sum[static_cast<std::size_t>((row * s.w + column) * s.c + c)] += load(dy[i]);
        }
      }
    }
    T* image = dx + n * s.h * s.w * s.c;
    for (std::size_t i = 0; i < sum.size(); ++i) store(image[i], sum[i]);
  }
}

}  // namespace

void max_pool_forward(const PoolShape& shape, const TensorView& x, const TensorView& y,
                      const TensorView& index) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    max_forward(shape, x.as<T>(), y.as<T>(), index.as<std::uint8_t>());
  });
}

void max_pool_backward(const PoolShape& shape, const TensorView& dy, const TensorView& index,
                       const TensorView& dx) {
  with_compute_type(dy.dtype, [&](auto type) {
    using T = decltype(type);
    max_backward(shape, dy.as<T>(), index.as<std::uint8_t>(), dx.as<T>());
  });
}

void global_average_pool_forward(const TensorView& x, const TensorView& y) {
  const Index batch = x.shape[0], pixels = x.shape[1] * x.shape[2], channels = x.shape[3];
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (Index n = 0; n < batch; ++n) {
      for (Index c = 0; c < channels; ++c) {
        double sum = 0;
        for (Index pixel = 0; pixel < pixels; ++pixel) {
          sum += load(x.as<T>()[(n * pixels + pixel) * channels + c]);
        }
        store(y.as<T>()[n * channels + c], sum / static_cast<double>(pixels));
      }
    }
  });
}

void global_average_pool_backward(const TensorView& dy, const TensorView& dx) {
  const Index batch = dx.shape[0], pixels = dx.shape[1] * dx.shape[2], channels = dx.shape[3];
  with_compute_type(dx.dtype, [&](auto type) {
    using T = decltype(type);
    for (Index n = 0; n < batch; ++n) {
      for (Index pixel = 0; pixel < pixels; ++pixel) {
        for (Index c = 0; c < channels; ++c) {
          const double g = load(dy.as<T>()[n * channels + c]);
          store(dx.as<T>()[(n * pixels + pixel) * channels + c], g / static_cast<double>(pixels));
        }
      }
    }
  });
}

}  // namespace lockstep::reference
