// The few checks that all contracts are made of. Internal to contracts*.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "core/error.h"
#include "core/tensor.h"

namespace lockstep::contract {

struct Named {
  const char* name;
  const TensorView& view;
};

inline bool overlap(const TensorView& a, const TensorView& b) {
  if (!a || !b) return false;
  const auto first_a = reinterpret_cast<std::uintptr_t>(a.data);
  const auto first_b = reinterpret_cast<std::uintptr_t>(b.data);
  return first_a < first_b + static_cast<std::uintptr_t>(b.bytes()) &&
         first_b < first_a + static_cast<std::uintptr_t>(a.bytes());
}

inline bool is_compute_type(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16;
}

// The checks of one call of one op; every message begins with the op and names the tensor.
class Op {
 public:
  explicit Op(const char* name) : name_(name) {}

  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]] {
      fail(ExitCode::internal, "{}: {}", name_, fmt::format(format, std::forward<Args>(args)...));
    }
  }

  void present(const Named& tensor) const {
    require(static_cast<bool>(tensor.view), "tensor {} is required", tensor.name);
    require(tensor.view.numel() > 0, "tensor {} is empty ({})", tensor.name, tensor.view.shape.to_string());
  }

  void compute_type(const Named& tensor) const {
    present(tensor);
    require(is_compute_type(tensor.view.dtype), "tensor {} is {}, expected f32, bf16 or f16", tensor.name,
            name_of(tensor.view.dtype));
  }

  void is(const Named& tensor, DType type, const Shape& shape) const {
    present(tensor);
    require(tensor.view.dtype == type, "tensor {} is {}, expected {}", tensor.name,
            name_of(tensor.view.dtype), name_of(type));
    require(tensor.view.shape == shape, "tensor {} is {}, expected {}", tensor.name,
            tensor.view.shape.to_string(), shape.to_string());
  }

  void rank(const Named& tensor, int rank) const {
    require(tensor.view.shape.rank() == rank, "tensor {} is {}, expected {} dimensions", tensor.name,
            tensor.view.shape.to_string(), rank);
  }

  // Type and shape of like, where the tensor is given.
  void optional_like(const Named& tensor, const TensorView& like) const {
    if (tensor.view) is(tensor, like.dtype, like.shape);
  }

  // out shares no byte with any of others.
  void apart(const Named& out, std::initializer_list<Named> others) const {
    for (const Named& other : others) {
      require(!overlap(out.view, other.view), "tensors {} and {} overlap", out.name, other.name);
    }
  }

  // out is exactly one of others, or shares no byte with it.
  void same_or_apart(const Named& out, std::initializer_list<Named> others) const {
    for (const Named& other : others) {
      require(out.view.data == other.view.data || !overlap(out.view, other.view),
              "tensors {} and {} overlap in part", out.name, other.name);
    }
  }

 private:
  const char* name_;
};

}  // namespace lockstep::contract
