#include "apps/training/program.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "apps/training/agree.h"

namespace lockstep {
namespace {

void print_error(const std::string& who, const std::string& message) {
  std::fflush(stdout);
  std::fputs(fmt::format("{}error: {}\n", who, message).c_str(), stderr);
}

// Why the job cannot run on CUDA devices, the same on all ranks; empty where each can have one, or nobody
// asks. The command line was refused on some rank, or CUDA fails: AgreedError.
std::string agree_on_cuda(Process& process, const Options& given, const std::optional<Error>& parse_error) {
  std::string ours;
  all_or_none(process.communicator(), [&] {
    if (parse_error) throw *parse_error;
    if (given.device == "auto" || given.device == "cuda")
      ours = why_not_cuda(process.local_rank(), process.local_size());
  });
  // Ranks on another device would not take part in what follows.
  verify_equal(process.communicator(), "option",
               {{"--device", given.device}, {"--allreduce", given.allreduce}});
  const std::vector<std::string> all = all_gather_text(process.communicator(), ours);
  const auto first =
      std::find_if(all.begin(), all.end(), [](const std::string& why) { return !why.empty(); });
  if (first == all.end()) return "";
  return process.size() == 1 ? *first : fmt::format("on rank {}: {}", first - all.begin(), *first);
}

ExitCode run(Process& process, const Program& program, const Options& given,
             const std::optional<Error>& parse_error, StartupClock& clock) {
  try {
    return end_job_on_error(process, [&] {
      const std::string no_cuda = agree_on_cuda(process, given, parse_error);
      Options resolved;
      all_or_none(process.communicator(),
                  [&] { resolved = resolve(given, process.size(), process.local_size(), no_cuda); });
      if (resolved.device == "cuda" && !no_cuda.empty()) {
        throw AgreedError(ExitCode::device,
                          fmt::format("--device cuda: {}. --device cpu runs without it", no_cuda));
      }
      const Device device = device_of(resolved, process.local_rank());
      if (given.device == "auto" && process.rank() == 0) {
        fmt::print(stderr, "device: {}{}\n", resolved.device,
                   no_cuda.empty() ? "" : fmt::format(" (no CUDA device: {})", no_cuda));
      }
      device.kind == DeviceKind::cuda ? process.use_cuda(device.index)
                                      : process.use_all_reduce(resolved.allreduce);
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
