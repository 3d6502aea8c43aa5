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
  // Arrived at some rank in the meantime, or 0: that rank broke off, and the figures are not to be used.
  int signal = 0;
};

// Equal on all ranks: a collective.
Evaluation evaluate(Engine& engine, const StopSignals& signals);

}  // namespace lockstep
