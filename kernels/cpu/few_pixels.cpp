#include "kernels/cpu/few_pixels.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cpu/vec.h"

namespace lockstep::cpu {
namespace {

// A tile is the innermost sum: eight channels of one side, two vectors of the other.
constexpr std::int64_t kChannels = 8;
constexpr std::int64_t kVectors = 2;
constexpr std::int64_t kPanel = kVectors * kLanes;
using Tile = Vec[kChannels][kVectors];

// The sums are held in registers, of which AVX-512 has enough for a tile, and others for a quarter of one or
// less.
constexpr std::int64_t kSumChannels = kRegisterLanes == kLanes ? kChannels : kChannels / 2;
constexpr std::int64_t kSumLanes = 2 * kRegisterLanes;
static_assert(kChannels % kSumChannels == 0 && kPanel % kSumLanes == 0);

// sums[j] += sum over k of a[k * kPanel ...] * b[j * b_channel + k * b_step]
LOCKSTEP_INLINE void multiply_part(float* sums, std::int64_t count, const float* a, const float* b,
                                   std::int64_t b_channel, std::int64_t b_step) {
  constexpr std::int64_t kAhead = 32;  // no hardware foresees the way down a column of weights
  Register sum[kSumChannels][2];
#pragma GCC unroll 8
  for (std::int64_t j = 0; j < kSumChannels; ++j) {
    sum[j][0] = load_register(sums + j * kPanel);
    sum[j][1] = load_register(sums + j * kPanel + kRegisterLanes);
  }
  for (std::int64_t k = 0; k < count; ++k, a += kPanel, b += b_step) {
    __builtin_prefetch(b + kAhead * b_step);
    const Register low = load_register(a), high = load_register(a + kRegisterLanes);
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < kSumChannels; ++j) {
      const Register factor = Register{} + b[j * b_channel];
      sum[j][0] += low * factor;
      sum[j][1] += high * factor;
    }
  }
#pragma GCC unroll 8
  for (std::int64_t j = 0; j < kSumChannels; ++j) {
    store_register(sums + j * kPanel, sum[j][0]);
    store_register(sums + j * kPanel + kRegisterLanes, sum[j][1]);
  }
}

// tile[j] += sum over k of a[k * kPanel ...] * b[j * b_channel + k * b_step], for the first `lanes` of the
// panel at least
LOCKSTEP_INLINE void multiply(Tile& tile, std::int64_t lanes, std::int64_t count, const float* a,
                              const float* b, std::int64_t b_channel, std::int64_t b_step) {
  for (std::int64_t lane = 0; lane < lanes; lane += kSumLanes) {
    for (std::int64_t j = 0; j < kChannels; j += kSumChannels) {
      multiply_part(reinterpret_cast<float*>(&tile) + j * kPanel + lane, count, a + lane, b + j * b_channel,
                    b_channel, b_step);
    }
  }
}

// Sixteen rows of sixteen become their columns: the elements of all rows, shuffled perfectly four times.
LOCKSTEP_INLINE void transpose(Vec (&rows)[kLanes]) {
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
    Vec next[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      const Vec a = rows[i], b = rows[i + kLanes / 2];
      next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] =
          __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(&rows, &next, sizeof(next));
  }
}

// Where an input pixel, an output pixel and a tap of the kernel meet.
struct Meeting {
  std::int64_t in, out, tap;
};

// All meetings, grouped by one of the three.
std::vector<std::vector<Meeting>> meetings(const ConvShape& s, std::int64_t Meeting::*group,
                                           std::int64_t groups) {
  std::vector<std::vector<Meeting>> found(static_cast<std::size_t>(groups));
  for (std::int64_t out = 0; out < s.out_h() * s.out_w(); ++out) {
    for (std::int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
      const std::int64_t row = out / s.out_w() * s.stride + tap / s.kernel - s.padding;
      const std::int64_t column = out % s.out_w() * s.stride + tap % s.kernel - s.padding;
      if (row < 0 || row >= s.h || column < 0 || column >= s.w) continue;
      const Meeting meeting{row * s.w + column, out, tap};
      found[static_cast<std::size_t>(meeting.*group)].push_back(meeting);
    }
  }
  return found;
}

// from[images][row] as panels of 32 images: to[images / 32][row][32], with zeros for the images that are
// missing.
void pack_images(const Threads& threads, const float* from, std::int64_t images, std::int64_t row,
                 float* to) {
  threads.split(row, kLanes, 2 * images * row * size_of(DType::f32),
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t first = 0; first < images; first += kLanes) {
                    float* column = to + first / kPanel * kPanel * row + first % kPanel;
                    for (std::int64_t c = begin; c < end; c += kLanes) {
                      Vec rows[kLanes] = {};
                      for (std::int64_t i = 0; i < std::min<std::int64_t>(kLanes, images - first); ++i)
                        rows[i] = load(from + (first + i) * row + c, AllLanes{});
                      transpose(rows);
                      for (std::int64_t i = 0; i < kLanes; ++i)
                        store(column + (c + i) * kPanel, rows[i], AllLanes{});
                    }
                  }
                });
}

// to[image * row + channel] (+)= tiles[channel][image], for sixteen channels and at most 32 images.
void unpack_images(const Tile (&tiles)[2], std::int64_t images, std::int64_t row, float* to,
                   bool accumulate) {
  for (std::int64_t first = 0; first < images; first += kLanes) {
    Vec rows[kLanes];
    for (std::int64_t c = 0; c < kLanes; ++c) rows[c] = tiles[c / kChannels][c % kChannels][first / kLanes];
    transpose(rows);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(kLanes, images - first); ++i) {
      float* at = to + (first + i) * row;
      store(at, accumulate ? load(at, AllLanes{}) + rows[i] : rows[i], AllLanes{});
    }
  }
}

// One side of the convolution, x or y (or its gradient).
struct Side {
  std::int64_t pixels, channels;
  std::int64_t Meeting::*pixel;
  std::int64_t w_step;  // between two channels' weights
  std::int64_t image() const { return pixels * channels; }
};

// to (+)= from through the weights, in either direction.
void through(Machine& m, const ConvShape& s, const Side& source, const float* from, const float* w,
             const Side& target, float* to, bool accumulate) {
  // Where a step leads from one row of weights to the next, so few that they are still in the cache when the
  // other eight channels of the same lines want them.
  const std::int64_t most = source.w_step == 1 ? source.channels : 64;
  const std::int64_t panels = (s.n + kPanel - 1) / kPanel;
  float* packed = m.workspace.array<float>(Area::columns, panels * kPanel * source.image());
  pack_images(m.threads, from, s.n, source.image(), packed);
  const auto of_pixel = meetings(s, target.pixel, target.pixels);
  const std::int64_t work = s.n * target.image() * source.channels;
  m.threads.split(target.channels, kLanes, work, [&](std::int64_t begin, std::int64_t end) {
    Tile tiles[kMostPixels][2];
    for (std::int64_t c = begin; c < end; c += kLanes) {
      for (std::int64_t first = 0; first < s.n; first += kPanel) {
        std::memset(static_cast<void*>(tiles), 0, sizeof(tiles[0]) * static_cast<std::size_t>(target.pixels));
        for (std::int64_t k = 0; k < source.channels; k += most) {
          const std::int64_t count = std::min(most, source.channels - k);
          for (std::int64_t pixel = 0; pixel < target.pixels; ++pixel) {
            for (std::int64_t half = 0; half < 2; ++half) {
              const float* rows = w + (c + half * kChannels) * target.w_step + k * source.w_step;
              for (const Meeting& meeting : of_pixel[static_cast<std::size_t>(pixel)]) {
                const std::int64_t channel = meeting.*source.pixel * source.channels + k;
                multiply(tiles[pixel][half], std::min(kPanel, s.n - first), count,
                         packed + first * source.image() + channel * kPanel, rows + meeting.tap * s.c_in,
                         target.w_step, source.w_step);
              }
            }
          }
        }
        for (std::int64_t pixel = 0; pixel < target.pixels; ++pixel) {
          unpack_images(tiles[pixel], std::min(kPanel, s.n - first), target.image(),
                        to + (first * target.pixels + pixel) * target.channels + c, accumulate);
        }
      }
    }
  });
}

Side input(const ConvShape& s) {
  return {s.h * s.w, s.c_in, &Meeting::in, 1};
}
Side output(const ConvShape& s) {
  return {s.out_h() * s.out_w(), s.c_out, &Meeting::out, s.kernel * s.kernel * s.c_in};
}

// to[j * row ...] (+)= tile[j]
void put_gradient(const Tile& tile, std::int64_t row, float* to, bool accumulate) {
  for (std::int64_t j = 0; j < kChannels; ++j) {
    for (std::int64_t v = 0; v < kVectors; ++v) {
      float* at = to + j * row + v * kLanes;
      store(at, accumulate ? load(at, AllLanes{}) + tile[j][v] : tile[j][v], AllLanes{});
    }
  }
}

}  // namespace

void few_pixels_forward(Machine& m, const ConvShape& s, const float* x, const float* w, float* y) {
  through(m, s, input(s), x, w, output(s), y, false);
}

void few_pixels_data(Machine& m, const ConvShape& s, const float* dy, const float* w, float* dx,
                     bool accumulate) {
  through(m, s, output(s), dy, w, input(s), dx, accumulate);
}

void few_pixels_weight(Machine& m, const ConvShape& s, const float* x, const float* dy, float* dw,
                       bool accumulate) {
  const Side in = input(s), out = output(s);
  const std::int64_t taps = s.kernel * s.kernel, work = s.n * in.image() * s.c_out;
  // x as panels of 32 channels, and of dy the eight channels of the moment: what a tile needs lies together.
  float* panels = m.workspace.array<float>(Area::columns, s.n * in.image());
  m.threads.split(in.image(), kPanel, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kPanel) {
      for (std::int64_t image = 0; image < s.n; ++image)
        std::memcpy(panels + i * s.n + image * kPanel, x + image * in.image() + i, kPanel * sizeof(float));
    }
  });
  const auto of_tap = meetings(s, &Meeting::tap, taps);
  float* columns = m.workspace.array<float>(Area::result, s.n * out.image());
  m.threads.split(s.c_out, kChannels, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; c += kChannels) {
      float* column = columns + c * s.n * out.pixels;
      for (std::int64_t image = 0; image < s.n; ++image) {
        for (std::int64_t pixel = 0; pixel < out.pixels; ++pixel)
          std::memcpy(column + (pixel * s.n + image) * kChannels,
                      dy + (image * out.pixels + pixel) * s.c_out + c, kChannels * sizeof(float));
      }
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        for (std::int64_t i = 0; i < s.c_in; i += kPanel) {
          Tile tile = {};
          for (const Meeting& meeting : of_tap[static_cast<std::size_t>(tap)])
            multiply(tile, kPanel, s.n, panels + (meeting.in * s.c_in + i) * s.n,
                     column + meeting.out * s.n * kChannels, 1, kChannels);
          put_gradient(tile, taps * s.c_in, dw + (c * taps + tap) * s.c_in + i, accumulate);
        }
      }
    }
  });
}

}  // namespace lockstep::cpu
