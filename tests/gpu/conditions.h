// How often, and under which orders of what CUDA leaves open, a test runs: decided by what is linked.
#pragma once

#include <functional>

namespace lockstep::test {

// A GPU has the order that it has: there the test is called once (one_condition.cpp). The simulated one is
// given several, one after the other (tests/cudasim/test/conditions.cpp).
void under_all_conditions(const std::function<void()>& test);

}  // namespace lockstep::test
