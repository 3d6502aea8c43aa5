// Which way a convolution goes: a matter of its shape alone (convolution.cpp says what the ways are).
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/primitives.h"

namespace lockstep::cpu {

enum class Path { pointwise, single_pixel, dense, columns, direct };

inline Path convolution_path(Direction direction, const ConvShape& s, DType type) {
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
