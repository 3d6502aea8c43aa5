// The job that a test program under mpirun is part of. All ranks run the same test cases in the same order; a
// check that fails on one rank must not leave the others in a collective, so tests use CHECK, and the
// watchdog ends what hangs.
#pragma once

#include <chrono>

#include "comm/process.h"

namespace lockstep::test {

// One for the whole program, made by the first test that asks: MPI can be initialised only once.
inline Process& job() {
  static Process process{std::chrono::seconds(60)};
  return process;
}

}  // namespace lockstep::test
