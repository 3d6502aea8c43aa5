// One suite for every backend: each op against the reference backend on the same bits, over odd shapes, both
// compute types, both gradient modes and every overlap that kernels/backend.h allows. A backend's own test
// file calls these from its TEST_CASEs:
//
//   TEST_CASE("cpu: convolution as the reference") {
//     const auto backend = make_cpu_backend(2);
//     suite::convolution(*backend);
//   }
//
// How tolerances come about (u = 2^-24, one f32 rounding):
//   A sum of K products of values in [-1, 1) has partial sums of about sqrt(k)/3; one rounding each, taken as
//   independent with deviation u/sqrt(3) of the partial sum, adds up to 0.14 K u. kUnit * K is seven
//   deviations. Elementwise formulas allow u for every operation, times the largest intermediate value. A
//   result that is stored in bf16 may land on the neighbouring value: 2^-7 relative on top (kBf16Step). What
//   only copies or selects (ReLU, max pooling, casts, dresidual) is compared exactly.
#pragma once

#include "kernels/backend.h"

namespace lockstep::suite {

// weight_sums: the type to which the tested backend rounds a bf16 weight gradient's sums before it makes them
// f32.
void convolution(Backend& tested, DType weight_sums = DType::f32);
void batch_norm(Backend& tested, std::size_t shapes = 14);  // the first so many of its shapes
void relu(Backend& tested);
void pooling(Backend& tested);
void linear(Backend& tested);
void softmax_cross_entropy(Backend& tested);
void sgd(Backend& tested);
void augment(Backend& tested);
void utilities(Backend& tested);

}  // namespace lockstep::suite
