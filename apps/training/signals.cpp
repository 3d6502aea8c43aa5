#include "apps/training/signals.h"

#include <pthread.h>

#include "core/thread.h"

namespace lockstep {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

sigset_t signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kSignals) sigaddset(&set, number);
  return set;
}

}  // namespace

const char* name_of_signal(int signal) {
  return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

ExitCode code_of_signal(int signal) {
  return signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated;
}

StopSignals::StopSignals() {
  for (const int number : kSignals) signal(number, SIG_DFL);  // a shell's background jobs ignore SIGINT
  const sigset_t set = signal_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = start_thread("ls-signals", [this] { wait(); });
}

StopSignals::~StopSignals() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void StopSignals::wait() {
  const sigset_t set = signal_set();
  while (true) {
    int number = 0;
    sigwait(&set, &number);
    if (ending_) return;
    if (number == SIGINT && arrived_ == SIGINT) {
      pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      raise(SIGINT);
    }
    arrived_ = number == SIGUSR1 ? SIGINT : number == SIGUSR2 ? SIGTERM : number;
  }
}

}  // namespace lockstep
