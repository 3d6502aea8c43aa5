// All that is trained, in flat buffers: weights, gradients, momentum (f32), and the working copy in compute
// type.
//
// Parameters lie in the order in which backward makes their gradients ready, so a gradient bucket is one
// contiguous slice: no packing. Each slice starts on 256 bytes; the padding between slices is zero and stays
// zero.
//
//     fc.bias | fc.weight | layer4.2.bn3.weight | ...                       | conv1.weight
//     index 0   1           2                     3   (the parameter index)   count()-1
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "kernels/context.h"

namespace lockstep {

struct Parameter {
  std::string name;  // torchvision's, for example "layer1.0.conv1.weight"
  Shape shape;       // as stored: convolution weights are [Cout,kh,kw,Cin]
  Layout layout = Layout::flat;
  bool decay = true;        // false for batch norm and bias: what --no-bias-decay leaves out of weight decay
  std::int64_t offset = 0;  // of the slice, in elements of the flat buffers
  std::int64_t numel() const { return shape.numel(); }
};

// Not trained but part of the model: batch norm's running statistics.
struct ModelBuffer {
  std::string name;  // "layer1.0.bn1.running_mean"
  Shape shape;
  std::int64_t offset = 0;  // in elements of the flat buffer of statistics
  float initial = 0.0f;
};

class ParameterStore {
 public:
  static constexpr std::int64_t kAlignment = 64;  // elements: 256 bytes of f32

  // Declaration, in ready order. Returns the index. Names are unique.
  int add_parameter(const std::string& name, const Shape& shape, Layout layout, bool decay);
  int add_buffer(const std::string& name, const Shape& shape, float initial);

  // Memory for everything declared: weights and momentum from `memory`, gradients from `gradient_memory` (the
  // communicator's, so that a collective needs no copy), a working copy where compute is not f32.
  void allocate(Allocator& memory, Allocator& gradient_memory, DType compute);

  int count() const { return static_cast<int>(parameters_.size()); }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<ModelBuffer>& buffers() const { return buffers_; }
  const Parameter& parameter(int index) const { return parameters_[static_cast<std::size_t>(index)]; }
  int find(const std::string& name) const;  // -1: none of that name

  TensorView weight(int index) const;    // f32 master
  TensorView working(int index) const;   // compute type; the master itself where compute is f32
  TensorView gradient(int index) const;  // f32
  TensorView momentum(int index) const;  // f32
  TensorView buffer(int index) const;    // f32

  // Slices that cover parameters first..last (inclusive), padding included.
  TensorView weights(int first, int last) const;
  TensorView workings(int first, int last) const;  // "no tensor" where compute is f32
  TensorView gradients(int first, int last) const;
  TensorView momenta(int first, int last) const;

  std::int64_t flat_size() const { return flat_size_; }  // elements of each flat buffer, padding included
  std::int64_t parameter_elements() const;  // without padding: 25,557,032 for ResNet-50 with 1000 classes
  // Working copies from the masters. Does nothing where compute is f32.
  void refresh_workings(Context& context) const;
  TensorView all_weights() const;
  TensorView all_gradients() const;
  TensorView all_momenta() const;
  TensorView all_buffers() const;
  // Begin of each slice and the end of the last: what a bucket plan is made from.
  std::vector<std::int64_t> offsets() const;

 private:
  TensorView slice(const Buffer& buffer, DType dtype, int first, int last) const;
  std::vector<Parameter> parameters_;
  std::vector<ModelBuffer> buffers_;
  std::int64_t flat_size_ = 0;
  std::int64_t buffer_size_ = 0;
  DType compute_ = DType::f32;
  Buffer weights_, gradients_, momenta_, workings_, statistics_;
};

}  // namespace lockstep
