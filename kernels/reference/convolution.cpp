// y[n,p,q,k] = sum over r,s,c of x[n, p*stride-padding+r, q*stride-padding+s, c] * w[k,r,s,c].
//
// The three directions are the same sum seen from y, from x and from w. Each loops over the elements of its
// result, outermost, and over c_in, the fastest dimension of x and w, innermost.
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
void forward(const ConvShape& s, const T* x, const T* w, T* y) {
  for (Index n = 0; n < s.n; ++n) {
    for (Index p = 0; p < s.out_h(); ++p) {
      for (Index q = 0; q < s.out_w(); ++q) {
        for (Index k = 0; k < s.c_out; ++k) {
          double sum = 0;
          for (Index r = 0; r < s.kernel; ++r) {
            for (Index t = 0; t < s.kernel; ++t) {
              const Index row = p * s.stride - s.padding + r;
              const Index column = q * s.stride - s.padding + t;
              if (!inside(row, s.h) || !inside(column, s.w)) continue;  // padding is zero
              const T* pixel = x + ((n * s.h + row) * s.w + column) * s.c_in;
              const T* weight = w + ((k * s.kernel + r) * s.kernel + t) * s.c_in;
              for (Index c = 0; c < s.c_in; ++c) sum += load(pixel[c]) * load(weight[c]);
            }
          }
          store(y[((n * s.out_h() + p) * s.out_w() + q) * s.c_out + k], sum);
        }
      }
    }
  }
}

// dx[n,row,column,c] = sum over k and all (r,t) for which a (p,q) exists with p*stride-padding+r = row and
// q*stride-padding+t = column, of dy[n,p,q,k] * w[k,r,t,c].
template <class T>
void backward_data(const ConvShape& s, const T* dy, const T* w, T* dx, GradMode mode) {
  std::vector<double> sum(static_cast<std::size_t>(s.c_in));
  for (Index n = 0; n < s.n; ++n) {
    for (Index row = 0; row < s.h; ++row) {
      for (Index column = 0; column < s.w; ++column) {
        sum.assign(sum.size(), 0.0);
        for (Index r = 0; r < s.kernel; ++r) {
          for (Index t = 0; t < s.kernel; ++t) {
            const Index p = row + s.padding - r;  // times the stride
            const Index q = column + s.padding - t;
            if (p % s.stride != 0 || q % s.stride != 0) continue;
            if (!inside(p / s.stride, s.out_h()) || !inside(q / s.stride, s.out_w())) continue;
            const T* gradient = dy + ((n * s.out_h() + p / s.stride) * s.out_w() + q / s.stride) * s.c_out;
            for (Index k = 0; k < s.c_out; ++k) {
              const double g = load(gradient[k]);
              const T* weight = w + ((k * s.kernel + r) * s.kernel + t) * s.c_in;
              for (Index c = 0; c < s.c_in; ++c) sum[static_cast<std::size_t>(c)] += g * load(weight[c]);
            }
          }
        }
        T* result = dx + ((n * s.h + row) * s.w + column) * s.c_in;
        for (Index c = 0; c < s.c_in; ++c) {
          const double before = mode == GradMode::accumulate ? load(result[c]) : 0.0;
          store(result[c], before + sum[static_cast<std::size_t>(c)]);
        }
      }
    }
  }
}

// dw[k,r,t,c] = sum over n,p,q of dy[n,p,q,k] * x[n, p*stride-padding+r, q*stride-padding+t, c].
template <class T>
void backward_weight(const ConvShape& s, const T* x, const T* dy, float* dw, GradMode mode) {
  std::vector<double> sum(static_cast<std::size_t>(s.c_in));
  for (Index k = 0; k < s.c_out; ++k) {
    for (Index r = 0; r < s.kernel; ++r) {
      for (Index t = 0; t < s.kernel; ++t) {
        sum.assign(sum.size(), 0.0);
        for (Index n = 0; n < s.n; ++n) {
          for (Index p = 0; p < s.out_h(); ++p) {
            for (Index q = 0; q < s.out_w(); ++q) {
              const Index row = p * s.stride - s.padding + r;
              const Index column = q * s.stride - s.padding + t;
              if (!inside(row, s.h) || !inside(column, s.w)) continue;
              const double g = load(dy[((n * s.out_h() + p) * s.out_w() + q) * s.c_out + k]);
              const T* pixel = x + ((n * s.h + row) * s.w + column) * s.c_in;
              for (Index c = 0; c < s.c_in; ++c) sum[static_cast<std::size_t>(c)] += g * load(pixel[c]);
            }
          }
        }
        float* result = dw + ((k * s.kernel + r) * s.kernel + t) * s.c_in;
        for (Index c = 0; c < s.c_in; ++c) store(result[c], sum[static_cast<std::size_t>(c)], mode);
      }
    }
  }
}

}  // namespace

void conv2d_forward(const ConvShape& shape, const TensorView& x, const TensorView& w, const TensorView& y) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    forward(shape, x.as<T>(), w.as<T>(), y.as<T>());
  });
}

void conv2d_backward_data(const ConvShape& shape, const TensorView& dy, const TensorView& w,
                          const TensorView& dx, GradMode mode) {
  with_compute_type(dy.dtype, [&](auto type) {
    using T = decltype(type);
    backward_data(shape, dy.as<T>(), w.as<T>(), dx.as<T>(), mode);
  });
}

void conv2d_backward_weight(const ConvShape& shape, const TensorView& x, const TensorView& dy,
                            const TensorView& dw, GradMode mode) {
  with_compute_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    backward_weight(shape, x.as<T>(), dy.as<T>(), dw.as<float>(), mode);
  });
}

}  // namespace lockstep::reference
