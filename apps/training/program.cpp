#include "apps/training/program.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <optional>

#include "apps/training/agree.h"

namespace lockstep {
namespace {

void print_error(const std::string& who, const std::string& message) {
  std::fflush(stdout);
  std::fputs(fmt::format("{}error: {}\n", who, message).c_str(), stderr);
}

ExitCode run(Process& process, const Program& program, const Options& given,
             const std::optional<Error>& parse_error, StartupClock& clock) {
  try {
    return end_job_on_error(process, [&] {
      Options resolved;
      Device device;
      all_or_none(process.communicator(), [&] {
        if (parse_error) throw *parse_error;
        resolved = resolve(given, process.size(), process.local_size());
        device = device_of(resolved, process.local_rank(), process.local_size(),
                           resolved.device == "cuda" ? cuda_device_count() : 0);
      });
      if (device.kind == DeviceKind::cuda) process.use_cuda(device.index);
      verify_equal(process.communicator(), "option", verified_items(program.extra));
      return program.work({process, given, resolved, device, clock});
    });
  } catch (const AgreedError& error) {
    if (process.rank() == 0) print_error("", error.what());
    return error.code();
  }
}

}  // namespace

ExitCode end_job_on_error(Process& process, const std::function<ExitCode()>& part) {
  try {
    return part();
  } catch (const AgreedError&) {
    throw;
  } catch (const std::exception& exception) {
    const Error error = error_of(exception);
    print_error(process.size() > 1 ? fmt::format("[rank {}] ", process.rank()) : "", error.what());
    process.abort(error.code());
  }
}

int run_program(int argc, char** argv, const Program& program) {
  StartupClock clock;
  signal(SIGPIPE, SIG_IGN);  // a reader that leaves is an error of the write, not the end of the process
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
  // Where the command line was refused, what it said about the time-out is not to be trusted.
  const std::int64_t timeout = parse_error ? Options{}.timeout : options.timeout;
  try {
    Process process{std::chrono::seconds(timeout)};
    clock.phase("MPI_Init");
    return static_cast<int>(run(process, program, options, parse_error, clock));
  } catch (const AgreedError& error) {
    if (launch_rank == 0) print_error("", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& exception) {
    // The job could not be made, and the other ranks do not know.
    const Error error = error_of(exception);
    print_error(launch_info().size > 1 ? fmt::format("[rank {}] ", launch_rank) : "", error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace lockstep
