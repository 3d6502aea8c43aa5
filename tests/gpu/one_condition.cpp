#include "gpu/conditions.h"

namespace lockstep::test {

void under_all_conditions(const std::function<void()>& test) {
  test();
}

}  // namespace lockstep::test
