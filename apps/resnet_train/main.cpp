// resnet_train: trains a ResNet on one or many ranks. `mpirun -np 2 resnet_train` needs no option.
#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "apps/training/agree.h"
#include "apps/training/options.h"
#include "apps/training/trainer.h"
#include "comm/process.h"
#include "core/host.h"
#include "core/log.h"

namespace {

using namespace lockstep;

const std::vector<OptionGroup> kGroups = {OptionGroup::model, OptionGroup::data, OptionGroup::recipe,
                                          OptionGroup::machine, OptionGroup::run};

void print_error(int rank, int size, const Error& error) {
  std::fflush(stdout);
  const std::string who = size > 1 ? fmt::format("[rank {}] ", rank) : "";
  std::fputs(fmt::format("{}error: {}\n", who, error.what()).c_str(), stderr);
}

// "trace.json" of rank 1 is "trace.rank1.json".
std::string trace_path(const std::string& path, int rank) {
  if (rank == 0) return path;
  const auto dot = path.rfind(".json");
  return fmt::format("{}.rank{}{}", path.substr(0, dot), rank,
                     dot == std::string::npos ? "" : path.substr(dot));
}

// The declaration order is the lifetime order: communicator, engine, trainer.
ExitCode train(Process& process, const Options& given, const std::optional<Error>& parse_error,
               StartupClock& clock) {
  Communicator& communicator = process.communicator();
  Options options;
  all_or_none(communicator, [&] {
    if (parse_error) throw *parse_error;
    options = resolve(given, process.size(), process.local_size());
  });
  const auto logger = make_logger(process.rank());
  const std::string config = fmt::format("# lockstep {}, {} rank(s); load with --config FILE\n{}", version(),
                                         process.size(), to_config(options, kGroups));
  if (process.rank() == 0) {
    std::fputs(config.c_str(), stdout);
    std::fflush(stdout);
  }
  std::optional<Tracer> tracer;
  if (!options.trace.empty()) tracer.emplace(process.rank());
  Engine engine(communicator, given, options, tracer ? &*tracer : nullptr,
                [&](const std::string& phase) { clock.phase(phase); });
  const bool on_terminal = process.rank() == 0 && shows_on_terminal(!launch_info().launcher.empty());
  Trainer trainer(engine, config, on_terminal, logger, clock);
  const ExitCode code = trainer.run();
  if (tracer) tracer->write(trace_path(options.trace, process.rank()));
  return code;
}

// An error that all ranks know ends them in order; one of this rank alone ends the job, so that no other rank
// waits.
ExitCode run(Process& process, const Options& options, const std::optional<Error>& parse_error,
             StartupClock& clock) {
  try {
    return train(process, options, parse_error, clock);
  } catch (const AgreedError& error) {
    if (process.rank() == 0) print_error(0, 1, error);
    return error.code();
  } catch (const Error& error) {
    print_error(process.rank(), process.size(), error);
    process.abort(error.code());
  } catch (const std::bad_alloc&) {
    print_error(process.rank(), process.size(),
                Error(ExitCode::memory, "out of memory: choose a smaller --batch-size"));
    process.abort(ExitCode::memory);
  } catch (const std::exception& error) {
    print_error(process.rank(), process.size(), Error(ExitCode::internal, error.what()));
    process.abort(ExitCode::internal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  StartupClock clock;
  const LaunchInfo launch = launch_info();
  Options options;
  std::optional<Error> parse_error;
  try {
    const std::string text = parse_command_line(
        argc, argv, kGroups, "Trains a ResNet in lockstep on all ranks: mpirun -np 2 resnet_train", {},
        options);
    if (!text.empty()) {
      if (launch.rank == 0) std::fputs(text.c_str(), stdout);
      return 0;
    }
  } catch (const Error& error) {
    parse_error = error;  // told to the other ranks first: this may be the only one that has it
  }
  try {
    Process process{std::chrono::seconds(options.timeout)};
    clock.phase("MPI_Init");
    return static_cast<int>(run(process, options, parse_error, clock));
  } catch (const Error& error) {
    if (launch.rank == 0) print_error(0, 1, error);
    return static_cast<int>(error.code());
  }
}
