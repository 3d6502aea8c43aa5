// Threads of Lockstep: named, and deaf to the signals that the main thread handles.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace lockstep {

// Starts body on a new thread. Tools show its name, cut to 15 characters. The signals that ask a program to
// stop are blocked there: SIGINT, SIGTERM, SIGUSR1 and SIGUSR2.
std::thread start_thread(const std::string& name, std::function<void()> body);

}  // namespace lockstep
