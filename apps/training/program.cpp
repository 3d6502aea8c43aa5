#include "apps/training/program.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>
#include <optional>

#include "apps/training/agree.h"

namespace lockstep {
namespace {

void print_error(const std::string& who, const std::string& message) {
  std::fflush(stdout);
  std::fputs(fmt::format("{}error: {}\n", who, message).c_str(), stderr);
}

[[noreturn]] void end_job(Process& process, ExitCode code, const std::string& message) {
  print_error(process.size() > 1 ? fmt::format("[rank {}] ", process.rank()) : "", message);
  process.abort(code);
}

ExitCode run(Process& process, const Program& program, const Options& given,
             const std::optional<Error>& parse_error, StartupClock& clock) {
  try {
    Options resolved;
    all_or_none(process.communicator(), [&] {
      if (parse_error) throw *parse_error;
      resolved = resolve(given, process.size(), process.local_size());
    });
    return program.work(process, given, resolved, clock);
  } catch (const AgreedError& error) {
    if (process.rank() == 0) print_error("", error.what());
    return error.code();
  } catch (const Error& error) {
    end_job(process, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    end_job(process, ExitCode::memory, "out of memory: choose a smaller --batch-size or model");
  } catch (const std::exception& error) {
    end_job(process, ExitCode::internal, error.what());
  }
}

}  // namespace

int run_program(int argc, char** argv, const Program& program) {
  StartupClock clock;
  const int launch_rank = launch_info().rank;
  Options options;
  std::optional<Error> parse_error;
  try {
    const std::string text =
        parse_command_line(argc, argv, program.groups, program.description, program.extra, options);
    if (!text.empty()) {
      if (launch_rank == 0) std::fputs(text.c_str(), stdout);
      return 0;
    }
  } catch (const Error& error) {
    parse_error = error;  // the others have to know, for this rank may be the only one that has it
  }
  try {
    Process process{std::chrono::seconds(options.timeout)};
    clock.phase("MPI_Init");
    return static_cast<int>(run(process, program, options, parse_error, clock));
  } catch (const Error& error) {
    // The job could not be made. What all ranks find alike is printed once.
    const bool alike = error.code() == ExitCode::usage || error.code() == ExitCode::peer;
    if (launch_rank == 0 || !alike)
      print_error(alike ? "" : fmt::format("[rank {}] ", launch_rank), error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace lockstep
