#include "apps/training/signals.h"

#include <atomic>
#include <initializer_list>

namespace lockstep {
namespace {

// The one global: a signal handler can reach nothing else. It may run on any thread that a library started.
std::atomic<int> arrived_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  arrived_signal = number == SIGUSR1 ? SIGINT : number == SIGUSR2 ? SIGTERM : number;
}

void install(int number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(number, &action, nullptr);
}

}  // namespace

const char* name_of_signal(int signal) {
  return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

ExitCode code_of_signal(int signal) {
  return signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated;
}

StopSignals::StopSignals() {
  arrived_signal = 0;
  install(SIGINT, on_signal, SA_RESTART | static_cast<int>(SA_RESETHAND));
  // A launcher repeats SIGTERM while it waits: it must not end the process in the middle of its checkpoint.
  for (const int number : {SIGTERM, SIGUSR1, SIGUSR2}) install(number, on_signal, SA_RESTART);
}

StopSignals::~StopSignals() {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) install(number, SIG_DFL, 0);
}

int StopSignals::arrived() const {
  return arrived_signal;
}

}  // namespace lockstep
