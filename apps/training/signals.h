// SIGINT and SIGTERM as a request to stop after the current step. A second SIGINT ends the process at once.
// SIGUSR1 and SIGUSR2 mean the same two: launchers pass them on where they answer the others by killing
// (scripts/mpi).
#pragma once

#include <csignal>
#include <cstdint>

#include "core/error.h"

namespace lockstep {

// Of SIGINT or SIGTERM.
const char* name_of_signal(int signal);
ExitCode code_of_signal(int signal);

// A signal of one rank on its way to all: a number for each signal, 0 or 1, which the ranks add up. Where
// both arrived, SIGTERM counts.
constexpr std::int64_t kSignalFlags = 2;
template <class Number>
void set_signal_flags(int signal, Number* flags) {
  flags[0] = signal == SIGINT ? Number{1} : Number{0};
  flags[1] = signal == SIGTERM ? Number{1} : Number{0};
}
template <class Number>
int signal_of_flags(const Number* flags) {
  return flags[1] > 0 ? SIGTERM : flags[0] > 0 ? SIGINT : 0;
}

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
