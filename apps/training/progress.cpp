#include "apps/training/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::lround(seconds));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
}

}  // namespace

bool shows_on_terminal(bool under_launcher) {
  if (isatty(STDOUT_FILENO) == 0) return false;
  if (!under_launcher) return true;
  std::error_code error;
  const auto target = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", getppid()), error);
  if (error) return false;
  const std::string name = target.string();
  return name.starts_with("/dev/pts/") || name.starts_with("/dev/tty");
}

ProgressLine::ProgressLine(bool enabled, bool live, int ranks)
    : enabled_(enabled), live_(live), ranks_(ranks) {}

void ProgressLine::step(const Now& now) {
  if (!enabled_) return;
  // Both are averaged over about the last 20 steps, so that their quotient is a rate and not a mean of rates.
  const double keep = smooth_seconds_ == 0 ? 0 : 0.95;
  smooth_seconds_ = keep * smooth_seconds_ + (1 - keep) * now.seconds;
  smooth_images_ = keep * smooth_images_ + (1 - keep) * static_cast<double>(now.images);
  const auto time = Clock::now();
  const bool last = now.steps_left == 0;
  if (!last && shown_ != Clock::time_point{} && time - shown_ < (live_ ? 200ms : 5000ms)) return;
  shown_ = time;
  const double rate = smooth_seconds_ > 0 ? smooth_images_ / smooth_seconds_ : 0;
  const std::string text =
      fmt::format("epoch {}/{}  step {}/{}  loss {:.4f}  lr {:.5f}  {:.0f} images/s ({:.0f} a rank)  {} left",
                  now.epoch + 1, now.epochs, now.step_in_epoch + 1, now.steps_per_epoch, now.loss, now.lr,
                  rate, rate / ranks_, duration_text(static_cast<double>(now.steps_left) * smooth_seconds_));
  if (live_) {
    std::fputs(fmt::format("\r\x1b[K{}", text).c_str(), stdout);
    on_line_ = true;
  } else {
    std::fputs((text + '\n').c_str(), stdout);
  }
  std::fflush(stdout);
}

void ProgressLine::print(const std::string& text) {
  if (!enabled_) return;
  std::fputs(fmt::format("{}{}\n", on_line_ ? "\r\x1b[K" : "", text).c_str(), stdout);
  std::fflush(stdout);
  on_line_ = false;
}

}  // namespace lockstep
