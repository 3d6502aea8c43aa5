#include "core/thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace lockstep {

std::thread start_thread(const std::string& name, std::function<void()> body) {
  // A new thread inherits the mask of the one that starts it, so there is no moment in which it is not deaf.
  sigset_t blocked, before;
  sigemptyset(&blocked);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&blocked, number);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  std::thread thread([short_name = name.substr(0, 15), run = std::move(body)] {
    pthread_setname_np(pthread_self(), short_name.c_str());
    run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace lockstep
