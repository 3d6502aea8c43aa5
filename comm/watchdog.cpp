#include "comm/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/thread.h"

namespace lockstep {

Watchdog::Watchdog(int rank, std::chrono::seconds timeout, std::function<void(const std::string&)> on_expiry)
    : rank_(rank), timeout_(timeout), on_expiry_(std::move(on_expiry)) {
  thread_ = start_thread("ls-watchdog", [this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_signal_.notify_one();
  thread_.join();
}

void Watchdog::watch() {
  using namespace std::chrono_literals;
  const auto period = std::clamp<std::chrono::milliseconds>(timeout_ / 20, 10ms, 1000ms);
  std::unique_lock lock(mutex_);
  auto last_look = std::chrono::steady_clock::now();
  while (!stop_signal_.wait_for(lock, period, [this] { return stop_; })) {
    // A look that comes much too late means that this process was stopped, and so were its peers.
    const auto now = std::chrono::steady_clock::now();
    waited_ += std::min<std::chrono::steady_clock::duration>(now - last_look, 2 * period);
    last_look = now;
    if (operation_ == nullptr || waited_ < timeout_) continue;
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    on_expiry_(fmt::format(
        "rank {} on {}: {} has waited {} s for the other ranks. One of them has died, hangs, or took another "
        "path: look at the first error above. If a rank may really need longer, raise --timeout.",
        rank_, host.data(), *operation_, std::chrono::duration_cast<std::chrono::seconds>(waited_).count()));
    return;
  }
}

Watchdog::Guard::Guard(Watchdog& watchdog, const std::string& operation) : watchdog_(watchdog) {
  const std::lock_guard lock(watchdog_.mutex_);
  watchdog_.operation_ = &operation;
  watchdog_.waited_ = {};
}

Watchdog::Guard::~Guard() {
  const std::lock_guard lock(watchdog_.mutex_);
  watchdog_.operation_ = nullptr;
}

void end_process_on_timeout(const std::string& message) {
  const std::string line = "error: " + message + "\n";
  // write() and _exit(): whatever the other threads hold, these two do not wait for it.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(static_cast<int>(ExitCode::peer));
}

}  // namespace lockstep
