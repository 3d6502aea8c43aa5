// From process start to the end of step 1: where the time went.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class StartupClock {
 public:
  // Begins at the start of the process as the kernel counts it: loading the program is the first phase.
  StartupClock();
  void phase(const std::string& name);  // the time since the last call belongs to `name`
  // "start-up 0.61 s: program 0.02, MPI_Init 0.24, data 0.05, ..."
  std::string summary() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_, last_;
  std::vector<std::pair<std::string, double>> phases_;
};

}  // namespace lockstep
