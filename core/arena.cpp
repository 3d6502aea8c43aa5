#include "core/arena.h"

#include <algorithm>

namespace lockstep {

Arena::Arena(Allocator& allocator, std::int64_t bytes) : buffer_(allocator, bytes) {}

TensorView Arena::tensor(DType dtype, Layout layout, const Shape& shape) {
  const std::int64_t bytes = shape.numel() * size_of(dtype);
  const std::int64_t end = used_ + (bytes + kAlignment - 1) / kAlignment * kAlignment;
  // The last tensor needs its own bytes only, not the padding after them.
  LOCKSTEP_CHECK(measuring() || used_ + bytes <= buffer_.bytes(),
                 "arena of {} bytes is too small: {} in use, tensor {} of {} asked for", buffer_.bytes(),
                 used_, shape.to_string(), name_of(dtype));
  // A measuring arena has no memory, but its views must not look like "no tensor": addresses start above
  // zero.
  auto* base = static_cast<std::byte*>(buffer_.data());
  void* data = measuring() ? reinterpret_cast<void*>(used_ + kAlignment) : static_cast<void*>(base + used_);
  used_ = end;
  peak_ = std::max(peak_, used_);
  return {data, dtype, layout, shape};
}

void Arena::release(std::int64_t mark) {
  LOCKSTEP_CHECK(mark >= 0 && mark <= used_, "release to {} with {} in use", mark, used_);
  used_ = mark;
}

}  // namespace lockstep
