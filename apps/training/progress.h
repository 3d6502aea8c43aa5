// What rank 0 shows while it trains: one live line on a terminal, a plain line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep {

// True where standard output ends at a terminal. Under mpirun a process writes to a pseudo terminal or pipe
// of the launcher, whatever the launcher's own output is: then the launcher's output decides.
bool shows_on_terminal(bool under_launcher);

class ProgressLine {
 public:
  ProgressLine(bool enabled, bool live, int ranks);

  struct Now {
    std::int64_t epoch, epochs, step_in_epoch, steps_per_epoch, steps_left;
    double loss, lr;
    std::int64_t images;  // of this step, all ranks
    double seconds;       // of this step
  };
  void step(const Now& now);
  // Prints a text on a line of its own; the live line comes back with the next step.
  void print(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_, live_;
  int ranks_;
  bool on_line_ = false;  // the cursor is behind a live line
  double smooth_seconds_ = 0, smooth_images_ = 0;
  Clock::time_point shown_{};
};

}  // namespace lockstep
