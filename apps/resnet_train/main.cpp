// resnet_train: trains a ResNet on one or many ranks. `mpirun -np 2 resnet_train` needs no option.
#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "apps/training/program.h"
#include "apps/training/trainer.h"
#include "core/host.h"
#include "core/log.h"

namespace {

using namespace lockstep;

const std::vector<OptionGroup> kGroups = {
    OptionGroup::model,   OptionGroup::data,          OptionGroup::recipe, OptionGroup::job,
    OptionGroup::compute, OptionGroup::communication, OptionGroup::run};

// The declaration order is the lifetime order: tracer, engine, trainer. The communicator belongs to the
// process.
ExitCode train(const Job& job, const StopSignals& signals) {
  Process& process = job.process;
  const Options& options = job.resolved;
  const std::string config = fmt::format("# lockstep {}, {} rank(s); load with --config FILE\n{}", version(),
                                         process.size(), to_config(options, kGroups));
  if (process.rank() == 0) {
    std::fputs(config.c_str(), stdout);
    std::fflush(stdout);
  }
  std::optional<Tracer> tracer;
  if (!options.trace.empty()) tracer.emplace(process.rank());
  Engine engine(process.communicator(), job.device, job.given, options, tracer ? &*tracer : nullptr,
                [&](const std::string& phase) { job.clock.phase(phase); });
  const bool on_terminal = process.rank() == 0 && shows_on_terminal(!launch_info().launcher.empty());
  Trainer trainer(engine, config, on_terminal, make_logger(process.rank()), job.clock, signals);
  return end_job_on_error(process, [&] { return trainer.run(); });
}

}  // namespace

int main(int argc, char** argv) {
  const StopSignals signals;
  return run_program(argc, argv,
                     {"Trains a ResNet in lockstep on all ranks: mpirun -np 2 resnet_train",
                      kGroups,
                      {},
                      [&](const Job& job) { return train(job, signals); }});
}
