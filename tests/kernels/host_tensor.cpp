#include "kernels/host_tensor.h"

namespace lockstep::test {

void check_gradient(const Values& x, const Values& gradient,
                    const std::function<double(const Values&)>& function, double tolerance,
                    const std::function<bool(const Values&, const Values&)>& smooth) {
  REQUIRE(x.size() == gradient.size());
  constexpr double kStep = 0x1p-7;  // exact in f32
  std::size_t left_out = 0;
  Values expected, actual;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Values above = x, below = x;
    above[i] += kStep;
    below[i] -= kStep;
    if (smooth && !smooth(above, below)) {
      ++left_out;
      continue;
    }
    expected.push_back((function(above) - function(below)) / (2 * kStep));
    actual.push_back(gradient[i]);
  }
  CHECK(left_out * 4 <= x.size());
  CHECK(compare(expected, actual, tolerance, tolerance) == "");
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace lockstep::test
