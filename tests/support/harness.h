// What tests of layers and networks share: a backend with its stream, tensors with memory, random values, and
// a checker of gradients by finite differences.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "catch.h"
#include "core/rng.h"
#include "kernels/context.h"

namespace lockstep::test {

// A backend, its compute stream, and memory for tensors that lives as long as this object.
class Harness {
 public:
  explicit Harness(const Device& device = {DeviceKind::reference, 0, 1})
      : backend_(make_backend(device)),
        stream_(backend_->make_compute_stream()),
        context{*backend_, *stream_} {}

  TensorView tensor(Layout layout, const Shape& shape, DType dtype = DType::f32) {
    memory_.emplace_back(backend_->allocator(), shape.numel() * size_of(dtype));
    return {memory_.back().data(), dtype, layout, shape};
  }
  // Normal values, the same for the same `key`.
  TensorView random(Layout layout, const Shape& shape, std::uint64_t key) {
    const TensorView t = tensor(layout, shape);
    Philox(7, RandomStream::init)
        .fill_normal(key, 0.0f, 1.0f, {t.as<float>(), static_cast<std::size_t>(t.numel())});
    return t;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::deque<Buffer> memory_;

 public:
  Context context;
};

inline std::span<float> values(const TensorView& t) {
  return {t.as<float>(), static_cast<std::size_t>(t.numel())};
}

inline double dot(const TensorView& a, const TensorView& b) {
  double sum = 0;
  for (std::size_t i = 0; i < values(a).size(); ++i) sum += static_cast<double>(values(a)[i]) * values(b)[i];
  return sum;
}

// Which elements are exactly zero: equal patterns over activations mean that no ReLU changed sides.
inline std::vector<bool> zeros(std::span<const float> activations) {
  std::vector<bool> pattern;
  for (const float v : activations) pattern.push_back(v == 0.0f);
  return pattern;
}

// Central differences of `objective` in up to `samples` elements of x against `gradient`. Elements where
// `kinks` (a pattern of the network's ReLUs or maxima) differs between the two points have no derivative
// there and are left out; at least half must remain.
struct Objective {
  std::function<double()> value;
  std::function<std::vector<bool>()> kinks = [] { return std::vector<bool>{}; };
};

inline void check_gradient(const Objective& objective, const TensorView& x, const TensorView& gradient,
                           std::int64_t samples = 40) {
  constexpr float kStep = 0x1.0p-9f;
  const std::int64_t stride = std::max<std::int64_t>(1, x.numel() / samples);
  int checked = 0, visited = 0;
  for (std::int64_t i = 0; i < x.numel(); i += stride) {
    float& element = x.as<float>()[i];
    const float saved = element;
    element = saved + kStep;
    const double above = objective.value();
    const double step_up = element - saved;
    const auto kinks_above = objective.kinks();
    element = saved - kStep;
    const double below = objective.value();
    const double step = step_up + (saved - element);
    const bool smooth = objective.kinks() == kinks_above;
    element = saved;
    ++visited;
    if (!smooth) continue;
    ++checked;
    const double expected = (above - below) / step;
    INFO("element " << i << " of " << x.shape.to_string());
    CHECK(gradient.as<float>()[i] == Approx(expected).epsilon(2e-3).margin(2e-3));
  }
  CHECK(2 * checked >= visited);
}

}  // namespace lockstep::test
