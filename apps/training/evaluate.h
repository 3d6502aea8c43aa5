// Evaluation: every test sample exactly once over all ranks, with the running statistics.
#pragma once

#include <cstdint>

#include "apps/training/engine.h"
#include "apps/training/signals.h"

namespace lockstep {

struct Evaluation {
  double loss = 0;      // mean over the samples, without label smoothing; not finite where a sample's is not
  double accuracy = 0;  // a fraction
  std::int64_t correct = 0, total = 0;
  int signal =
      0;  // arrived at some rank in the meantime: that rank broke off, the figures are not to be used
};

// Equal on all ranks: a collective.
Evaluation evaluate(Engine& engine, const StopSignals& signals);

}  // namespace lockstep
