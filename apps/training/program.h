// What every program's main() does around its work: options, the job, errors, the exit code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/training/options.h"
#include "apps/training/startup.h"
#include "comm/process.h"

namespace lockstep {

// What the work is given.
struct Job {
  Process& process;
  const Options& given;     // as on the command line
  const Options& resolved;  // what it means in this job
  Device device;            // of this rank
  StartupClock& clock;
};

struct Program {
  std::string description;
  std::vector<OptionGroup> groups;
  std::vector<ExtraOption> extra;
  std::function<ExitCode(const Job& job)> work;
};

// Runs a part of the work. An error of this rank alone is printed and ends the whole job from within the
// part: nothing of what surrounds the call is destroyed, since the comm stream may still write to it. An
// AgreedError is passed on.
ExitCode end_job_on_error(Process& process, const std::function<ExitCode()>& part);

// Returns the exit code. An error that all ranks know (AgreedError) is printed once, by rank 0, and the job
// ends in order; one of this rank alone is printed with its rank and ends the whole job with its code, so
// that nobody waits.
int run_program(int argc, char** argv, const Program& program);

}  // namespace lockstep
