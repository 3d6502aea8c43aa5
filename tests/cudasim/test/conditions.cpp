// The conditions of the simulated GPU: orders of threads and blocks, late and early streams.
#include "gpu/conditions.h"

#include <array>
#include <cstdlib>
#include <span>

#include "catch.h"
#include "cudasim/cudasim.h"

namespace lockstep::test {

// Where CUDASIM chooses a condition, it is the only one.
void under_all_conditions(const std::function<void()>& test) {
  struct Case {
    cudasim::Order order;
    std::uint32_t seed;
    bool eager;
  };
  const std::array<Case, 5> cases = {
      Case{cudasim::Order::forward, 0, false}, Case{cudasim::Order::reversed, 0, true},
      Case{cudasim::Order::random, 1, false}, Case{cudasim::Order::random, 2, true},
      Case{cudasim::Order::random, 3, false}};
  if (std::getenv("CUDASIM") != nullptr) {
    test();
  } else {
    for (const Case& c : std::span(cases).first(CUDASIM_ORDERS)) {
      INFO("order " << static_cast<int>(c.order) << ", seed " << c.seed << (c.eager ? ", eager" : ", lazy"));
      cudasim::Config config = cudasim::config();
      config.order = c.order;
      config.seed = c.seed;
      config.eager = c.eager;
      const cudasim::Configured scope(config);
      test();
    }
  }
  CHECK(cudasim::alive() == cudasim::Alive{});
}

}  // namespace lockstep::test
