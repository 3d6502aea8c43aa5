// Whether a call's results are right, before it is timed.
//
// The judge is the reference backend, which is slow. So the batch repeats one period of samples: the tested
// backend computes the whole batch, with the kernels that it chooses for it, the reference one period, and
// every period of every result is compared with that. Sums over the batch (weight gradients) are as many
// times larger; a mean and a variance are those of the period.
#pragma once

#include <cstdint>
#include <string>

#include "bench/kernels/call.h"
#include "bench/kernels/instance.h"

namespace lockstep::bench {

// The samples that the reference computes in about a tenth of a second: the largest divisor of the batch.
std::int64_t affordable_period(const Call& call);

// The relative distance of two neighbouring values of the compute type, or of TF32, to which a device rounds
// f32 factors: a result, or what goes into it, may round to either. 0 for f32.
double distance_of_neighbours(DType compute, bool tf32);

// "" where each actual value is within
//   (roundings * 2^-24 + neighbours) * max(|expected|, root mean square of all expected)
// of the expected one, else how many are not, and the first of them. NaN is never right.
std::string compare(const Values& expected, const Values& actual, double roundings, double neighbours);

// Runs the call once on both. "" where all results are right, else the first that is not.
std::string check(const Instance& tested, const Instance& reference, double neighbours);

}  // namespace lockstep::bench
