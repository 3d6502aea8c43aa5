// Rearrangements that turn a convolution into a matrix product. Pixels move whole: c_in values that lie
// together.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/threads.h"

namespace lockstep::cpu {

// The pixels that a strided 1x1 kernel meets: x [n,h,w,c] -> [n,out_h,out_w,c], and the way back. The pixels
// in between become zero, or keep what they have when
// accumulating. Gradients come back in f32, to be rounded once.
void gather_strided(const Threads& threads, const ConvShape& shape, DType type, const void* x,
                    void* gathered);
void scatter_strided(const Threads& threads, const ConvShape& shape, DType type, const float* gathered,
                     void* dx, bool accumulate);

// The window of every output pixel: x -> [n*out_h*out_w][kernel][kernel][c_in], padding as zeros. The way
// back adds up what a pixel got in all windows that it is part of.
void gather_windows(const Threads& threads, const ConvShape& shape, DType type, const void* x, void* windows);
void scatter_windows(const Threads& threads, const ConvShape& shape, DType type, const float* windows,
                     void* dx, bool accumulate);

// 3x3 on 2x2 images: w [c_out][3][3][c_in] -> [output pixel 0..3][c_out][input pixel 0..3][c_in], and the way
// back, which adds up the places that a tap has.
void expand_kernel(const Threads& threads, const ConvShape& shape, DType type, const void* w, void* expanded);
void fold_kernel(const Threads& threads, const ConvShape& shape, const float* expanded, float* dw,
                 bool accumulate);

}  // namespace lockstep::cpu
