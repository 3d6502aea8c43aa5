#include "kernels/twins.h"

#include <cmath>

#include "catch.h"

namespace lockstep::test {

Twins::Twins(Backend& tested) : reference_(make_reference_backend()), backends_{reference_.get(), &tested} {
  for (std::size_t side = 0; side < 2; ++side) streams_[side] = backends_[side]->make_compute_stream();
}

Pair Twins::values(DType type, Layout layout, const Shape& shape, const Values& values) {
  return Pair(TestTensor(*backends_[0], *streams_[0], type, layout, shape, values),
              TestTensor(*backends_[1], *streams_[1], type, layout, shape, values));
}

Pair Twins::uniform(DType type, Layout layout, const Shape& shape, double low, double high) {
  return values(type, layout, shape, test::uniform(shape.numel(), low, high, ++seed_));
}

void check_equal(const std::string& name, const Pair& pair, const Tolerance& tolerance) {
  INFO(name << " (" << pair[1].shape.to_string() << ", " << name_of(pair[1].dtype) << ")");
  CHECK(compare(pair.expected(), pair.actual(), tolerance) == "");
}

Tolerance rounded(DType type, Tolerance tolerance) {
  if (type == DType::bf16) tolerance.rel += kBf16Step;
  if (type == DType::f16) tolerance.rel += kF16Step, tolerance.abs += kF16Subnormal;
  return tolerance;
}

Tolerance tf32_products(std::int64_t terms, Tolerance tolerance) {
  tolerance.abs += 0x1p-10 * std::sqrt(static_cast<double>(terms));
  return tolerance;
}

}  // namespace lockstep::test
