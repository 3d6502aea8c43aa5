// SIGINT and SIGTERM as a request to stop after the current step. A second SIGINT ends the process at once.
// SIGUSR1 and SIGUSR2 mean the same two: launchers pass them on where they answer the others by killing
// (scripts/mpi).
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <thread>

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

// Takes the signals. They are blocked in every thread and a thread of its own waits for them: a handler would
// run on the stack of whatever it interrupts, and oneDNN's matrix products (2.6) use the heap for one. So
// main() makes it before anything starts a thread, and a signal during start-up counts too. They stay
// blocked: one that comes late does not change how the program ends.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int arrived() const { return arrived_; }  // SIGINT or SIGTERM, 0: none

 private:
  void wait();

  std::atomic<int> arrived_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace lockstep
