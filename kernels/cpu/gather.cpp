#include "kernels/cpu/gather.h"

#include <cstring>

#include "kernels/cpu/machine.h"
#include "kernels/cpu/vec.h"

namespace lockstep::cpu {
namespace {

template <class T>
void copy(T* to, const T* from, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
}

template <class T>
void clear(T* to, std::int64_t count) {
  std::memset(static_cast<void*>(to), 0, static_cast<std::size_t>(count) * sizeof(T));
}

// to (+)= from, rounded once.
template <class T>
LOCKSTEP_INLINE void put(T* to, const float* from, std::int64_t count, bool accumulate) {
  for_lanes(0, count, [=](std::int64_t i, auto lanes) {
    const Vec value = load(from + i, lanes);
    store(to + i, accumulate ? load(to + i, lanes) + value : value, lanes);
  });
}

std::int64_t image_bytes(const ConvShape& s, DType type) {
  return s.n * s.h * s.w * s.c_in * size_of(type);
}

template <class T>
void scatter_row(const ConvShape& s, std::int64_t row, const float* gathered, T* to, bool accumulate) {
  if (!accumulate) clear(to, s.w * s.c_in);
  if (row % s.stride != 0 || row / s.stride >= s.out_h()) return;
  for (std::int64_t q = 0; q < s.out_w(); ++q) {
    put(to + q * s.stride * s.c_in, gathered + q * s.c_in, s.c_in, accumulate);
  }
}

// What one input pixel got in all windows, summed in f32.
template <class T>
void scatter_pixel(const ConvShape& s, std::int64_t row, std::int64_t column, const float* windows, T* to,
                   bool accumulate) {
  const std::int64_t window = s.kernel * s.kernel * s.c_in;
  for_lanes(0, s.c_in, [&](std::int64_t c, auto lanes) {
    Vec sum = accumulate ? load(to + c, lanes) : Vec{};
    for (std::int64_t r = 0; r < s.kernel; ++r) {
      const std::int64_t p = row + s.padding - r;  // the output row, times the stride
      if (p < 0 || p % s.stride != 0 || p / s.stride >= s.out_h()) continue;
      for (std::int64_t t = 0; t < s.kernel; ++t) {
        const std::int64_t q = column + s.padding - t;
        if (q < 0 || q % s.stride != 0 || q / s.stride >= s.out_w()) continue;
        const std::int64_t output = p / s.stride * s.out_w() + q / s.stride;
        sum += load(windows + output * window + (r * s.kernel + t) * s.c_in + c, lanes);
      }
    }
    store(to + c, sum, lanes);
  });
}

}  // namespace

void gather_strided(const Threads& threads, const ConvShape& s, DType type, const void* x, void* gathered) {
  const std::int64_t pixel = s.c_in * size_of(type), out_h = s.out_h(), out_w = s.out_w();
  threads.split(s.n * out_h, 1, image_bytes(s, type), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t n = row / out_h, p = row % out_h;
      const char* from = static_cast<const char*>(x) + (n * s.h + p * s.stride) * s.w * pixel;
      char* to = static_cast<char*>(gathered) + row * out_w * pixel;
      for (std::int64_t q = 0; q < out_w; ++q) copy(to + q * pixel, from + q * s.stride * pixel, pixel);
    }
  });
}

void scatter_strided(const Threads& threads, const ConvShape& s, DType type, const float* gathered, void* dx,
                     bool accumulate) {
  with_compute_type(type, [&](auto t) {
    using T = decltype(t);
    threads.split(s.n * s.h, 1, image_bytes(s, type), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t n = i / s.h, row = i % s.h;
        const std::int64_t p = std::min(row / s.stride, s.out_h() - 1);
        const float* from = gathered + (n * s.out_h() + p) * s.out_w() * s.c_in;
        scatter_row(s, row, from, static_cast<T*>(dx) + i * s.w * s.c_in, accumulate);
      }
    });
  });
}

void gather_windows(const Threads& threads, const ConvShape& s, DType type, const void* x, void* windows) {
  const std::int64_t out_h = s.out_h(), out_w = s.out_w(), pixel = s.c_in * size_of(type);
  const std::int64_t pixels = s.n * out_h * out_w;
  threads.split(pixels, 1, pixels * s.kernel * s.kernel * pixel, [&](std::int64_t begin, std::int64_t end) {
    char* to = static_cast<char*>(windows) + begin * s.kernel * s.kernel * pixel;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / (out_h * out_w), p = i / out_w % out_h, q = i % out_w;
      const std::int64_t left = q * s.stride - s.padding;
      const std::int64_t first = std::clamp<std::int64_t>(-left, 0, s.kernel);
      const std::int64_t last =
          std::clamp<std::int64_t>(s.w - left, first, s.kernel);  // taps first..last-1 exist
      for (std::int64_t r = 0; r < s.kernel; ++r, to += s.kernel * pixel) {
        const std::int64_t row = p * s.stride - s.padding + r;
        if (row < 0 || row >= s.h) {
          clear(to, s.kernel * pixel);
          continue;
        }
        const char* from = static_cast<const char*>(x) + ((n * s.h + row) * s.w + left + first) * pixel;
        clear(to, first * pixel);
        copy(to + first * pixel, from, (last - first) * pixel);
        clear(to + last * pixel, (s.kernel - last) * pixel);
      }
    }
  });
}

void scatter_windows(const Threads& threads, const ConvShape& s, DType type, const float* windows, void* dx,
                     bool accumulate) {
  with_compute_type(type, [&](auto t) {
    using T = decltype(t);
    const std::int64_t window = s.kernel * s.kernel * s.c_in;
    const std::int64_t bytes = s.n * s.out_h() * s.out_w() * window * size_of(DType::f32);
    threads.split(s.n * s.h, 1, bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float* image = windows + i / s.h * s.out_h() * s.out_w() * window;
        for (std::int64_t column = 0; column < s.w; ++column) {
          scatter_pixel(s, i % s.h, column, image, static_cast<T*>(dx) + (i * s.w + column) * s.c_in,
                        accumulate);
        }
      }
    });
  });
}

void expand_kernel(const Threads& threads, const ConvShape& s, DType type, const void* w, void* expanded) {
  const std::int64_t pixel = s.c_in * size_of(type);
  threads.split(4 * s.c_out, 1, 16 * s.c_out * pixel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t y = i / s.c_out / 2, x = i / s.c_out % 2;
      const char* kernel = static_cast<const char*>(w) + i % s.c_out * 9 * pixel;
      char* to = static_cast<char*>(expanded) + i * 4 * pixel;
      // Input pixels (row,0) and (row,1) meet the taps (row-y+1, 1-x) and (row-y+1, 2-x), which lie together.
      for (std::int64_t row = 0; row < 2; ++row) {
        copy(to + row * 2 * pixel, kernel + ((row - y + 1) * 3 + 1 - x) * pixel, 2 * pixel);
      }
    }
  });
}

void fold_kernel(const Threads& threads, const ConvShape& s, const float* expanded, float* dw,
                 bool accumulate) {
  threads.split(s.c_out, 1, 16 * s.c_out * s.c_in * size_of(DType::f32),
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t k = begin; k < end; ++k) {
                    for (std::int64_t tap = 0; tap < 9; ++tap) {
                      const float* place[4];
                      int places = 0;
                      for (std::int64_t out = 0; out < 4; ++out) {
                        const std::int64_t row = out / 2 + tap / 3 - 1, column = out % 2 + tap % 3 - 1;
                        if (row < 0 || row > 1 || column < 0 || column > 1) continue;
                        place[places++] = expanded + ((out * s.c_out + k) * 4 + row * 2 + column) * s.c_in;
                      }
                      float* to = dw + (k * 9 + tap) * s.c_in;
                      for_lanes(0, s.c_in, [&](std::int64_t c, auto lanes) {
                        Vec sum = load(place[0] + c, lanes);
                        for (int i = 1; i < places; ++i) sum += load(place[i] + c, lanes);
                        store(to + c, accumulate ? load(to + c, lanes) + sum : sum, lanes);
                      });
                    }
                  }
                });
}

}  // namespace lockstep::cpu
