// Sums over a whole tensor.
#include "core/hash.h"
#include "kernels/reference/numeric.h"
#include "kernels/reference/ops.h"

namespace lockstep::reference {

void sum_of_squares(const TensorView& x, const TensorView& sum) {
  double total = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) total += load(x.as<float>()[i]) * load(x.as<float>()[i]);
  store(sum.as<float>()[0], total);
}

void checksum(const TensorView& x, const TensorView& sum) {
  const std::uint64_t value = lockstep::checksum(x.data, x.bytes());
  sum.as<std::int32_t>()[0] = static_cast<std::int32_t>(value);
  sum.as<std::int32_t>()[1] = static_cast<std::int32_t>(value >> 32);
}

}  // namespace lockstep::reference
