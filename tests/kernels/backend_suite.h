// One suite for every backend: each op against the reference backend on the same bits, over odd shapes, its
// compute types, both gradient modes and every overlap that kernels/backend.h allows. A backend's own test
// file calls these from its TEST_CASEs:
//
//   TEST_CASE("cpu: convolution as the reference") {
//     const auto backend = make_cpu_backend(2);
//     suite::convolution(*backend, {});
//   }
//
// How tolerances come about (u = 2^-24, one f32 rounding):
//   A sum of K products of values in [-1, 1) has partial sums of about sqrt(k)/3; one rounding each, taken as
//   independent with deviation u/sqrt(3) of the partial sum, adds up to 0.14 K u. kUnit * K is seven
//   deviations. Elementwise formulas allow u for every operation, times the largest intermediate value. A
//   result that is stored in 16 bits may land on the neighbouring value: 2^-7 relative on top for bf16, 2^-10
//   and 2^-24 absolute for f16 (Twins' rounded()). TF32 factors are off by 2^-11 each at most. A product of
//   two values in [-1, 1) then has an error below 2^-10 and a deviation of 0.1 * 2^-10, so K of them stay
//   below sqrt(K) * 2^-10, ten deviations (tf32_products()). What only copies or selects (ReLU, max pooling,
//   casts, dresidual) is compared exactly.
#pragma once

#include <vector>

#include "kernels/backend.h"

namespace lockstep::suite {

// What the tested backend does in its own way.
struct Arithmetic {
  std::vector<DType> types = {DType::f32, DType::bf16};  // that it computes in
  bool rounds_weight_sums = false;                       // of a 16-bit convolution, to that type
  bool tf32 = false;                                     // the factors of f32 products
};

void convolution(Backend& tested, const Arithmetic& arithmetic);
void batch_norm(Backend& tested, const Arithmetic& arithmetic,
                std::size_t shapes = 16);  // the first so many of its shapes
void relu(Backend& tested, const Arithmetic& arithmetic);
void pooling(Backend& tested, const Arithmetic& arithmetic);
void linear(Backend& tested, const Arithmetic& arithmetic);
void softmax_cross_entropy(Backend& tested, const Arithmetic& arithmetic);
void sgd(Backend& tested, const Arithmetic& arithmetic);
void augment(Backend& tested, const Arithmetic& arithmetic);
void utilities(Backend& tested, const Arithmetic& arithmetic);

}  // namespace lockstep::suite
