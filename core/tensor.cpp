#include "core/tensor.h"

#include <utility>

namespace lockstep {

Shape::Shape(std::initializer_list<std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  LOCKSTEP_CHECK(dims.size() <= dims_.size(), "a shape has at most {} dimensions, not {}", dims_.size(),
                 dims.size());
  std::size_t axis = 0;
  for (const std::int64_t dim : dims) {
    LOCKSTEP_CHECK(dim >= 0, "dimension {} is {}", axis, dim);
    dims_[axis++] = dim;
  }
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
  return product;
}

Shape Shape::with_first(std::int64_t n) const {
  LOCKSTEP_CHECK(rank_ > 0 && n >= 0, "first dimension {} of a shape of rank {}", n, rank_);
  Shape result = *this;
  result.dims_[0] = n;
  return result;
}

std::string Shape::to_string() const {
  if (rank_ == 0) return "scalar";
  std::string text = std::to_string(dims_[0]);
  for (int axis = 1; axis < rank_; ++axis) {
    text += 'x';
    text += std::to_string((*this)[axis]);
  }
  return text;
}

Buffer::Buffer(Allocator& allocator, std::int64_t bytes)
    : allocator_(&allocator), data_(allocator.allocate(bytes)), bytes_(bytes) {}

Buffer::Buffer(Buffer&& other) noexcept
    : allocator_(std::exchange(other.allocator_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    allocator_ = std::exchange(other.allocator_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

// A buffer that was moved from holds nothing, so that memory is freed once.
Buffer::~Buffer() {
  release();
}

void Buffer::release() noexcept {
  if (data_ != nullptr) allocator_->deallocate(data_, bytes_);
  data_ = nullptr;
}

TensorView TensorView::first(std::int64_t n) const {
  LOCKSTEP_CHECK(shape.rank() > 0 && n >= 0 && n <= shape[0], "first {} of a tensor {}", n,
                 shape.to_string());
  return {data, dtype, layout, shape.with_first(n)};
}

}  // namespace lockstep
