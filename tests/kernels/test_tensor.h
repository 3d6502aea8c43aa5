// Tensors for tests of any backend: filled from doubles, read back as doubles, with a fence of known bytes on
// both sides that shows a write out of bounds.
#pragma once

#include <vector>

#include "core/tensor.h"
#include "kernels/backend.h"

namespace lockstep::test {

using Values = std::vector<double>;

// Uniform in [low, high), a function of the seed alone.
Values uniform(std::int64_t count, double low, double high, std::uint64_t seed);

class TestTensor {
 public:
  // values are rounded to the type once; an empty list poisons the tensor: NaN, or 0xEE bytes in integers.
  TestTensor(Backend& backend, Stream& stream, DType type, Layout layout, const Shape& shape,
             const Values& values);

  operator const TensorView&() const { return view_; }  // NOLINT: passed to ops as the view it is
  const TensorView& view() const { return view_; }
  // Waits for the stream. Fails the test where the fence was touched.
  Values read() const;

 private:
  Backend* backend_;
  Stream* stream_;
  Buffer buffer_;
  TensorView view_;
};

}  // namespace lockstep::test
