// A bump allocator over one Buffer: everything that a model needs is laid out once, before the first step.
//
// Laying out takes two passes over the same code: a measuring arena (no memory behind it) says how many bytes
// are needed, then a real one hands them out. mark() and release() give memory back in stack order, so that
// tensors with disjoint lifetimes share it; peak() is what the buffer must hold.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace lockstep {

class Arena {
 public:
  static constexpr std::int64_t kAlignment = 256;

  Arena() = default;  // measuring: returned addresses must not be dereferenced
  Arena(Allocator& allocator, std::int64_t bytes);

  bool measuring() const { return buffer_.data() == nullptr; }
  TensorView tensor(DType dtype, Layout layout,
                    const Shape& shape);  // Error(internal) when the arena is too small

  std::int64_t mark() const { return used_; }
  void release(std::int64_t mark);
  std::int64_t used() const { return used_; }
  std::int64_t peak() const { return peak_; }

 private:
  Buffer buffer_;
  std::int64_t used_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace lockstep
