// Time, and what the machine can do at best.
#pragma once

#include <functional>

#include "kernels/backend.h"

namespace lockstep::bench {

// Seconds of one call: the median of `repetitions` measurements. A measurement enqueues as many calls as take
// about ten milliseconds and waits once, so that neither starting the first nor waiting for the last counts
// for much. Finding out how many is the warm-up.
double median_seconds(Stream& stream, const std::function<void()>& enqueue, int repetitions);

struct Peaks {
  double bytes_per_second;  // of copy_on_device of 256 MiB, what is read and what is written
  double flops_per_second;  // of linear_backward_data, a plain product, of two square matrices
};

// Both through the backend's own ops, in the compute type: what a kernel is held against is what the same
// library reaches on this machine today, not a data sheet.
Peaks measure_peaks(Backend& backend, Stream& stream, DType compute);

}  // namespace lockstep::bench
