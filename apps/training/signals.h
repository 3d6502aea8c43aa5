// SIGINT and SIGTERM as a request to stop after the current step. A second SIGINT ends the process at once.
// SIGUSR1 and SIGUSR2 mean the same two: launchers pass them on where they answer the others by killing
// (scripts/mpi).
#pragma once

#include "core/error.h"

namespace lockstep {

// Of SIGINT or SIGTERM.
const char* name_of_signal(int signal);
ExitCode code_of_signal(int signal);

// Installs the handlers for its lifetime: main() makes it first, so that a signal during start-up counts too.
// The number that has arrived is process-wide, as signals are.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int arrived() const;  // SIGINT or SIGTERM, 0: none
};

}  // namespace lockstep
