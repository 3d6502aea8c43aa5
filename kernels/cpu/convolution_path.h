// Which way a convolution goes: a matter of its shape alone (convolution.cpp says what the ways are).
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/few_pixels.h"
#include "kernels/cpu/primitives.h"

namespace lockstep::cpu {

enum class Path { few_pixels, pointwise, single_pixel, dense, columns, direct };

// Where sums over what meets beat a product of matrices. Without a window that takes very few rows, whose
// weights would otherwise be copied for a single use.
inline bool has_few_pixels(Direction direction, const ConvShape& s) {
  constexpr std::int64_t kUnit = 32, kFewRows = 32;
  const std::int64_t in = s.h * s.w, out = s.out_h() * s.out_w();
  if (s.c_in % kUnit != 0 || s.c_out % kUnit != 0) return false;
  if (s.kernel == 1 && s.padding == 0)
    return out == 1 && in <= kMostPixels && s.n <= kFewRows && direction == Direction::forward;
  if (direction == Direction::backward_weight) return out <= 16;
  return in <= kMostPixels && out <= 4 && (out > 1 || direction == Direction::forward);
}

inline Path convolution_path(Direction direction, const ConvShape& s, DType type) {
  if (type == DType::f32 && has_few_pixels(direction, s)) return Path::few_pixels;
  if (s.kernel == 1 && s.padding == 0) return Path::pointwise;
  if (s.out_h() == 1 && s.out_w() == 1 && s.padding < s.kernel) return Path::single_pixel;
  if (s.h == 2 && s.w == 2 && s.kernel == 3 && s.padding == 1 && s.stride == 1) return Path::dense;
  // oneDNN 2.6 has no fast weight gradient in bf16, and is slow where a stride leaves few pixels.
  const bool weight_gradient = direction == Direction::backward_weight;
  if (weight_gradient && type == DType::bf16) return Path::columns;
  if (s.kernel == 3 && s.stride == 2 && s.out_h() * s.out_w() <= (weight_gradient ? 16 : 4))
    return Path::columns;
  return Path::direct;
}

}  // namespace lockstep::cpu
