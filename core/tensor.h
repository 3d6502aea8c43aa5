// Shape, Buffer (owns memory) and TensorView (borrows it).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/allocator.h"
#include "core/dtype.h"
#include "core/error.h"

namespace lockstep {

// Up to four dimensions, outermost first. An activation is N, H, W, C; a convolution weight is Cout, kh, kw,
// Cin.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t numel() const;              // 1 for a scalar (rank 0)
  Shape with_first(std::int64_t n) const;  // the first dimension replaced by n
  bool operator==(const Shape& other) const = default;
  std::string to_string() const;  // "32x8x8x64"

 private:
  std::array<std::int64_t, 4> dims_{};
  int rank_ = 0;
};

// How the dimensions of a Shape lie in memory (always dense, last dimension fastest).
enum class Layout : std::uint8_t {
  flat,  // vectors, matrices [rows][columns], scalars
  nhwc,  // activations
  ohwi,  // convolution weights [Cout][kh][kw][Cin]
};

// Memory of one allocator. Move-only; freed on destruction.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Allocator& allocator, std::int64_t bytes);  // zero-filled; Error(memory) when there is none
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void release() noexcept;
  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// A typed, shaped window on memory that somebody else owns. A default view is "no tensor".
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Layout layout = Layout::flat;
  Shape shape;

  explicit operator bool() const { return data != nullptr; }
  std::int64_t numel() const { return shape.numel(); }
  std::int64_t bytes() const { return numel() * size_of(dtype); }

  // The elements as T; an internal error if T is not the view's type.
  template <class T>
  T* as() const {
    LOCKSTEP_CHECK(dtype == dtype_of<T>(), "tensor {} holds {}", shape.to_string(), name_of(dtype));
    return static_cast<T*>(data);
  }
  // The same memory with the first dimension cut to n (a partial batch).
  TensorView first(std::int64_t n) const;
};

}  // namespace lockstep
