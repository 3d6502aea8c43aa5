#include "apps/training/startup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

namespace lockstep {
namespace {

// Seconds since the kernel started this process; 0 where /proc does not say. Field 22 of /proc/self/stat, in
// ticks since boot; the name of the program (field 2) may hold blanks and ends with the last ')'.
double age_of_process() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return 0;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double since_boot = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  const double age = since_boot - ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  return age > 0 && age < 3600 ? age : 0;
}

}  // namespace

StartupClock::StartupClock() {
  const auto now = Clock::now();
  start_ = last_ =
      now - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(age_of_process()));
  phase("program");
}

void StartupClock::phase(const std::string& name) {
  const auto now = Clock::now();
  phases_.emplace_back(name, std::chrono::duration<double>(now - last_).count());
  last_ = now;
}

std::string StartupClock::summary() const {
  std::string text = fmt::format("start-up {:.2f} s:", std::chrono::duration<double>(last_ - start_).count());
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    text += fmt::format("{} {} {:.2f}", i == 0 ? "" : ",", phases_[i].first, phases_[i].second);
  }
  return text;
}

}  // namespace lockstep
