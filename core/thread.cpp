#include "core/thread.h"

#include <pthread.h>

#include <utility>

namespace lockstep {

std::thread start_thread(const std::string& name, std::function<void()> body) {
  return std::thread([short_name = name.substr(0, 15), run = std::move(body)] {
    pthread_setname_np(pthread_self(), short_name.c_str());
    run();
  });
}

}  // namespace lockstep
