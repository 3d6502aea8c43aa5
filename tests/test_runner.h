// Catch2's command line.
#pragma once

namespace lockstep::test {

// Runs the cases that the arguments choose; returns the number of those that failed (at most 255).
int run_cases(int argc, char** argv);

}  // namespace lockstep::test
