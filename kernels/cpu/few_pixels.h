// f32 convolutions whose images have few pixels, as sums over the meetings of input pixels, output pixels and
// taps that exist: nothing is spent on padding, and the weights are read where they lie, once for 32 images.
#pragma once

#include "kernels/cpu/machine.h"

namespace lockstep::cpu {

// Channels must come in multiples of 32; forward and data: at most kMostPixels pixels in x and in y.
inline constexpr std::int64_t kMostPixels = 16;

void few_pixels_forward(Machine& m, const ConvShape& s, const float* x, const float* w, float* y);
void few_pixels_data(Machine& m, const ConvShape& s, const float* dy, const float* w, float* dx,
                     bool accumulate);
void few_pixels_weight(Machine& m, const ConvShape& s, const float* x, const float* dy, float* dw,
                       bool accumulate);

}  // namespace lockstep::cpu
