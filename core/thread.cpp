#include "core/thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace lockstep {

std::thread start_thread(const std::string& name, std::function<void()> body) {
  // A new thread inherits the mask of the one that starts it, so there is no moment in which it is not deaf.
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
  return thread;
}

}  // namespace lockstep
