// Evaluation: every test sample exactly once over all ranks, with the running statistics.
#pragma once

#include <cstdint>

#include "apps/training/engine.h"

namespace lockstep {

struct Evaluation {
  double loss = 0;      // mean over the samples, without label smoothing
  double accuracy = 0;  // a fraction
  std::int64_t correct = 0, total = 0;
  int signal = 0;  // arrived at some rank in the meantime
};

// Equal on all ranks. `signal` is what has arrived at this one.
Evaluation evaluate(Engine& engine, int signal);

}  // namespace lockstep
