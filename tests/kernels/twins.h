// The same tensors twice, on the reference backend (side 0) and on the tested one (side 1), and the check
// that an op leaves the same in both.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "kernels/compare.h"
#include "kernels/test_tensor.h"

namespace lockstep::test {

class Pair {
 public:
  Pair(TestTensor reference, TestTensor tested) : sides_{std::move(reference), std::move(tested)} {}
  const TensorView& operator[](int side) const { return sides_[static_cast<std::size_t>(side)].view(); }
  Values expected() const { return sides_[0].read(); }
  Values actual() const { return sides_[1].read(); }

 private:
  std::array<TestTensor, 2> sides_;
};

class Twins {
 public:
  explicit Twins(Backend& tested);

  Pair values(DType type, Layout layout, const Shape& shape, const Values& values);
  Pair uniform(DType type, Layout layout, const Shape& shape, double low = -1,
               double high = 1);  // new each time
  Pair poisoned(DType type, Layout layout, const Shape& shape) { return values(type, layout, shape, {}); }

  // op(backend, stream, side) on both sides; done when it returns.
  template <class Op>
  void run(const Op& op) {
    for (int side = 0; side < 2; ++side) {
      op(*backends_[static_cast<std::size_t>(side)], *streams_[static_cast<std::size_t>(side)], side);
      streams_[static_cast<std::size_t>(side)]->synchronize();
    }
  }

 private:
  std::unique_ptr<Backend> reference_;
  std::array<Backend*, 2> backends_;
  std::array<std::unique_ptr<Stream>, 2> streams_;
  std::uint64_t seed_ = 0;
};

// Fails the test, with the first misses, where the tested side is not as the reference.
void check_equal(const std::string& name, const Pair& pair, const Tolerance& tolerance);
// Allows the neighbouring value where the type is a 16-bit one.
Tolerance rounded(DType type, Tolerance tolerance);
// Of a sum of products of values in [-1, 1) whose factors were rounded to TF32.
Tolerance tf32_products(std::int64_t terms, Tolerance tolerance);

}  // namespace lockstep::test
