// A convolution as a finalized plan describes it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace cudasim {

enum class Direction { forward, backward_data, backward_weight };

enum class Type { f32, bf16, f16 };

struct Tensor {
  std::string id;
  Type type = Type::f32;
  std::array<std::int64_t, 4> dims{}, strides{};  // N, C, H, W (weights: K, C, R, S), in elements
  void* data = nullptr;

  std::int64_t bytes() const;  // from the first element to the last
};

struct Plan {
  Direction direction = Direction::forward;
  std::array<std::int64_t, 2> padding{}, stride{}, dilation{};
  float alpha = 1, beta = 0;
  bool tf32 = false;  // f32 factors are rounded to TF32
  Tensor x, w, y;     // or their gradients

  Tensor& result() {
    return direction == Direction::forward ? y : direction == Direction::backward_data ? x : w;
  }
};

// Throws std::runtime_error for what the double does not compute: other graphs, other types.
Plan parse_plan(const std::string& json);

// result = alpha * convolution + beta * result. Sums in f32, one rounding to the result's type.
void compute(Plan plan);

}  // namespace cudasim
