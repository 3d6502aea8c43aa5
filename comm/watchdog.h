// A deadline for everything that waits for other ranks. A collective never returns when a peer is gone or
// took another path; the watchdog turns that silence into a message and an exit code.
//
// It looks about once a second, from a thread of its own: an operation only notes that it is under way. Time
// in which the whole process was stopped (Ctrl-Z, a suspended machine) does not count.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep {

class Watchdog {
 public:
  // on_expiry receives the message, on the watchdog's thread, once.
  Watchdog(int rank, std::chrono::seconds timeout, std::function<void(const std::string&)> on_expiry);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // An operation that waits for peers, from construction to destruction. One at a time.
  class Guard {
   public:
    Guard(Watchdog& watchdog, const std::string& operation);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  void watch();

  int rank_;
  std::chrono::seconds timeout_;
  std::function<void(const std::string&)> on_expiry_;
  std::mutex mutex_;
  std::condition_variable stop_signal_;
  const std::string* operation_ = nullptr;        // owned by the caller of the Guard; null: nothing waits
  std::chrono::steady_clock::duration waited_{};  // by the operation
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

// For a watchdog of a whole job: prints the message and ends the process with ExitCode::peer. Not by exit()
// or MPI_Abort: another thread is inside MPI and will not come back.
[[noreturn]] void end_process_on_timeout(const std::string& message);

}  // namespace lockstep
