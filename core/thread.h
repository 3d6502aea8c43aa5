// Threads of Lockstep have names.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace lockstep {

// Starts body on a new thread. Tools show its name, cut to 15 characters.
std::thread start_thread(const std::string& name, std::function<void()> body);

}  // namespace lockstep
