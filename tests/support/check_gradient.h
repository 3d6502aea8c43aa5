// Gradients against finite differences, aware of the kinks of ReLU.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "catch.h"
#include "support/harness.h"

namespace lockstep::test {

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
