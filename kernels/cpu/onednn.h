// oneDNN behind one small interface: 2.x (operation descriptors) and 3.x (primitive descriptors only) differ
// in how a primitive is described, and nowhere else in this folder does that matter.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace lockstep::cpu {

using MemoryDesc = dnnl::memory::desc;

struct ConvolutionDesc {
  MemoryDesc x, w, y;  // logical order N,C,H,W and O,I,H,W; strides say what lies where
  dnnl::memory::dims stride, padding_begin, padding_end;
  MemoryDesc forward_x, forward_w, forward_y;  // of the forward convolution that a gradient refers to
};

// A gradient in f32 of a bf16 convolution has no forward twin of the same types, so the hint has its own.
inline ConvolutionDesc hint_of(ConvolutionDesc d) {
  d.x = d.forward_x;
  d.y = d.forward_y;
  d.w = d.forward_w;
  return d;
}

#if DNNL_VERSION_MAJOR >= 3

inline dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const MemoryDesc& a,
                                                    const MemoryDesc& b, const MemoryDesc& c,
                                                    const dnnl::primitive_attr& attr) {
  return dnnl::matmul::primitive_desc(engine, a, b, c, attr);
}

inline dnnl::convolution_forward::primitive_desc describe_forward(const dnnl::engine& engine,
                                                                  const ConvolutionDesc& d,
                                                                  const dnnl::primitive_attr& attr) {
  return dnnl::convolution_forward::primitive_desc(engine, dnnl::prop_kind::forward_training,
                                                   dnnl::algorithm::convolution_direct, d.x, d.w, d.y,
                                                   d.stride, d.padding_begin, d.padding_end, attr);
}

inline dnnl::convolution_backward_data::primitive_desc describe_backward_data(
    const dnnl::engine& engine, const ConvolutionDesc& d, const dnnl::primitive_attr& attr) {
  return dnnl::convolution_backward_data::primitive_desc(engine, dnnl::algorithm::convolution_direct, d.x,
                                                         d.w, d.y, d.stride, d.padding_begin, d.padding_end,
                                                         describe_forward(engine, hint_of(d), attr), attr);
}

inline dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(
    const dnnl::engine& engine, const ConvolutionDesc& d, const dnnl::primitive_attr& attr) {
  return dnnl::convolution_backward_weights::primitive_desc(
      engine, dnnl::algorithm::convolution_direct, d.x, d.w, d.y, d.stride, d.padding_begin, d.padding_end,
      describe_forward(engine, hint_of(d), attr), attr);
}

#else

inline dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const MemoryDesc& a,
                                                    const MemoryDesc& b, const MemoryDesc& c,
                                                    const dnnl::primitive_attr& attr) {
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attr, engine);
}

inline dnnl::convolution_forward::primitive_desc describe_forward(const dnnl::engine& engine,
                                                                  const ConvolutionDesc& d,
                                                                  const dnnl::primitive_attr& attr) {
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training,
                                             dnnl::algorithm::convolution_direct, d.x, d.w, d.y, d.stride,
                                             d.padding_begin, d.padding_end);
  return dnnl::convolution_forward::primitive_desc(desc, attr, engine);
}

inline dnnl::convolution_backward_data::primitive_desc describe_backward_data(
    const dnnl::engine& engine, const ConvolutionDesc& d, const dnnl::primitive_attr& attr) {
  const dnnl::convolution_backward_data::desc desc(dnnl::algorithm::convolution_direct, d.x, d.w, d.y,
                                                   d.stride, d.padding_begin, d.padding_end);
  return dnnl::convolution_backward_data::primitive_desc(desc, attr, engine,
                                                         describe_forward(engine, hint_of(d), attr));
}

inline dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(
    const dnnl::engine& engine, const ConvolutionDesc& d, const dnnl::primitive_attr& attr) {
  const dnnl::convolution_backward_weights::desc desc(dnnl::algorithm::convolution_direct, d.x, d.w, d.y,
                                                      d.stride, d.padding_begin, d.padding_end);
  return dnnl::convolution_backward_weights::primitive_desc(desc, attr, engine,
                                                            describe_forward(engine, hint_of(d), attr));
}

#endif

}  // namespace lockstep::cpu
