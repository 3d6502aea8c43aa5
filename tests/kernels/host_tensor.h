// Short spelling for tests of the reference backend: tensors on one inline stream.
#pragma once

#include <functional>
#include <limits>
#include <memory>

#include "catch.h"
#include "kernels/compare.h"
#include "kernels/test_tensor.h"

namespace lockstep::test {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Reference {
  std::unique_ptr<Backend> backend = make_reference_backend();
  std::unique_ptr<Stream> stream = backend->make_compute_stream();

  Backend* operator->() const { return backend.get(); }
  TestTensor image(const Shape& shape, const Values& values = {}, DType type = DType::f32) const {
    return {*backend, *stream, type, Layout::nhwc, shape, values};
  }
  TestTensor weight(const Shape& shape, const Values& values = {}, DType type = DType::f32) const {
    return {*backend, *stream, type, Layout::ohwi, shape, values};
  }
  TestTensor flat(const Shape& shape, const Values& values = {}, DType type = DType::f32) const {
    return {*backend, *stream, type, Layout::flat, shape, values};
  }
};

// Compares a gradient with central differences of a scalar function of float inputs: (f(x+h) - f(x-h)) / 2h,
// one entry at a time. Entries for which smooth(x+h, x-h) is false cross a kink of the function (ReLU, a
// maximum that changes its place), where no derivative exists; they are left out, and must be few.
//
// f sums f32 results, so it carries about 1e-7 of its terms; h = 1e-2 keeps that below 1e-4 and the
// third-order term below 1e-3 in the functions tested here.
void check_gradient(const Values& x, const Values& gradient,
                    const std::function<double(const Values&)>& function, double tolerance = 2e-3,
                    const std::function<bool(const Values&, const Values&)>& smooth = nullptr);

// sum of a * b
double dot(const Values& a, const Values& b);

}  // namespace lockstep::test
