// step_bench: times the trainer's own step object, loss and optimiser inside.
//
// The steps are those of `resnet_train` with the same options: same weights, samples, order and learning
// rates. So last_loss is the loss of step (warmup + steps - 1) in resnet_train's --metrics, and a bench that
// leaves out work shows it there. A time is the slowest rank's (the ranks go in lockstep), and of those the
// median over the steps.
//
// On a device the host enqueues ahead, as the trainer does: ms_step is then the time from the end of one step
// to the end of the next, and the other times are the host's for enqueuing the parts.
//
// ms_exposed_comm: each timed step is also taken without communication by all ranks at once, right before the
// real one, and undone; the figure is the difference of the two medians. Waiting in finish() alone would hide
// what communication costs by taking cores away from backward.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/training/agree.h"
#include "apps/training/engine.h"
#include "apps/training/program.h"
#include "apps/training/schedule.h"
#include "apps/training/signals.h"

namespace {

using namespace lockstep;

struct BenchOptions {
  std::int64_t warmup = 5;
  std::int64_t steps = 20;
  std::string json;
};

// Walks through the epochs as the trainer does.
class Walk {
 public:
  Walk(Engine& engine, const StopSignals& signals)
      : engine_(engine),
        signals_(signals),
        schedule_(engine.options(), engine.steps_per_epoch(),
                  engine.options().batch_size * engine.communicator().size()),
        indices_(engine.epoch_indices(0, engine.communicator().rank())) {}

  TrainStep::Result step(bool communicate) { return engine_.step().run(request(communicate)); }
  TrainStep::Request request(bool communicate) const {
    TrainStep::Request request;
    request.samples = engine_.batch(indices_, at_);
    request.epoch = epoch_;
    request.learning_rate = schedule_.learning_rate(epoch_, at_);
    request.communicate = communicate;
    request.signal = signals_.arrived();
    return request;
  }
  void advance() {
    if (++at_ < engine_.steps_per_epoch()) return;
    at_ = 0;
    indices_ = engine_.epoch_indices(++epoch_, engine_.communicator().rank());
  }

 private:
  Engine& engine_;
  const StopSignals& signals_;
  Schedule schedule_;
  std::vector<std::int64_t> indices_;
  std::int64_t epoch_ = 0, at_ = 0;
};

// All that a step changes, to undo it.
class Snapshot {
 public:
  explicit Snapshot(Engine& engine) : engine_(engine) {
    ParameterStore& store = engine.store();
    parts_ = {store.all_weights(), store.all_momenta(), store.all_buffers()};
    if (const TensorView working = store.workings(0, store.count() - 1)) parts_.push_back(working);
    for (const TensorView& part : parts_)
      copies_.emplace_back(engine.context().backend.allocator(), part.bytes());
  }
  void take() {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      copy(copies_[i].data(), parts_[i].data, parts_[i].bytes());
  }
  void restore() {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      copy(parts_[i].data, copies_[i].data(), parts_[i].bytes());
  }

 private:
  void copy(void* to, const void* from, std::int64_t bytes) {
    engine_.context().backend.copy_on_device(engine_.context().stream, to, from, bytes);
  }
  Engine& engine_;
  std::vector<TensorView> parts_;
  std::vector<Buffer> copies_;
};

// Per step the slowest rank, then the median over the steps.
double median_of_slowest(Communicator& communicator, std::vector<double> values) {
  communicator.all_reduce_host(values.data(), static_cast<std::int64_t>(values.size()), ReduceOp::max,
                               "timings");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

struct Timings {
  std::vector<double> step, forward, backward, optimizer;
  std::vector<double> alone,
      together;  // of several ranks: without and with communication, one step at a time
  double last_loss = 0;
  int signal = 0;  // arrived at some rank: all ranks broke off after the same step
};

void add(const TrainStep::Result& result, Timings& times) {
  if (result.signal != 0) times.signal = result.signal;
  times.step.push_back(result.ms_step);
  times.forward.push_back(result.ms_forward);
  times.backward.push_back(result.ms_backward);
  times.optimizer.push_back(result.ms_optimizer);
  times.last_loss = result.loss;
}

// One step at a time, where the host runs it itself.
void measure_single_steps(Engine& engine, const BenchOptions& bench, Walk& walk, Timings& times) {
  Communicator& communicator = engine.communicator();
  std::optional<Snapshot> snapshot;
  if (communicator.size() > 1) snapshot.emplace(engine);
  for (std::int64_t i = 0; i < bench.steps && times.signal == 0; ++i) {
    if (snapshot) {
      snapshot->take();
      communicator.barrier("before a step without communication");
      times.alone.push_back(walk.step(false).ms_step);
      snapshot->restore();
    }
    communicator.barrier("before a step");
    add(walk.step(true), times);
    walk.advance();
  }
  times.together = times.step;
}

// What a device has under way overlaps; what communication costs is measured before, one step at a time.
void measure_steps_ahead(Engine& engine, const BenchOptions& bench, Walk& walk, Timings& times) {
  Communicator& communicator = engine.communicator();
  std::optional<Snapshot> snapshot;
  if (communicator.size() > 1) snapshot.emplace(engine);
  // The first two of each kind allocate, and record (--cuda-graph).
  for (std::int64_t i = -2; snapshot && i < bench.steps && times.signal == 0; ++i) {
    snapshot->take();
    for (const bool communicate : {false, true}) {
      communicator.barrier("before a step");
      const TrainStep::Result result = walk.step(communicate);
      if (i >= 0) (communicate ? times.together : times.alone).push_back(result.ms_step);
      if (communicate) times.signal = result.signal;
      snapshot->restore();
    }
  }
  TrainStep& step = engine.step();
  for (std::int64_t i = 0; i < bench.steps && times.signal == 0; ++i) {
    step.enqueue(walk.request(true));
    walk.advance();
    if (step.pending() > step.lag()) add(step.collect(), times);
  }
  while (step.pending() > 0) add(step.collect(), times);
}

Timings measure(Engine& engine, const BenchOptions& bench, const StopSignals& signals) {
  Walk walk(engine, signals);
  Timings times;
  for (std::int64_t i = 0; i < bench.warmup; ++i) {
    times.signal = walk.step(true).signal;
    if (times.signal != 0) return times;
    walk.advance();
  }
  (engine.step().lag() == 0 ? measure_single_steps : measure_steps_ahead)(engine, bench, walk, times);
  return times;
}

nlohmann::ordered_json result_of(const Options& options, Communicator& communicator, const Timings& times) {
  const double ms_step = median_of_slowest(communicator, times.step);
  const double exposed = times.alone.empty() ? 0.0
                                             : median_of_slowest(communicator, times.together) -
                                                   median_of_slowest(communicator, times.alone);
  const double images = static_cast<double>(options.batch_size * communicator.size());
  return {{"model", options.model},
          {"stem", options.stem},
          {"channels", options.channels},
          {"batch_size", options.batch_size},
          {"dtype", options.dtype},
          {"threads", options.threads},
          {"ranks", communicator.size()},
          {"ms_step", ms_step},
          {"ms_forward", median_of_slowest(communicator, times.forward)},
          {"ms_backward", median_of_slowest(communicator, times.backward)},
          {"ms_optimizer", median_of_slowest(communicator, times.optimizer)},
          {"ms_exposed_comm", exposed},
          {"images_per_second", 1000 * images / ms_step},
          {"last_loss", times.last_loss}};
}

ExitCode measure_and_write(Engine& engine, const BenchOptions& bench, const StopSignals& signals) {
  Communicator& communicator = engine.communicator();
  const Timings times = measure(engine, bench, signals);
  if (times.signal != 0) {
    if (communicator.rank() == 0) fmt::print("stopped by {}: no result\n", name_of_signal(times.signal));
    return code_of_signal(times.signal);
  }
  const nlohmann::ordered_json result = result_of(engine.options(), communicator, times);
  all_or_none(communicator, [&] {
    if (communicator.rank() != 0) return;
    if (std::fputs((result.dump(1) + '\n').c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      fail(ExitCode::data, "cannot write the result to standard output: {}", std::strerror(errno));
    if (bench.json.empty()) return;
    std::ofstream file(bench.json);
    file << result.dump() << '\n';
    if (!file.flush()) fail(ExitCode::data, "--json {}: cannot write: {}", bench.json, std::strerror(errno));
  });
  return ExitCode::ok;
}

ExitCode run(const Job& job, const BenchOptions& bench, const StopSignals& signals) {
  Engine engine(job.process.communicator(), job.device, job.given, job.resolved, nullptr,
                [](const std::string&) {});
  return end_job_on_error(job.process, [&] { return measure_and_write(engine, bench, signals); });
}

}  // namespace

int main(int argc, char** argv) {
  const StopSignals signals;
  BenchOptions bench;
  return run_program(argc, argv,
                     {"Times the training step: mpirun -np 2 step_bench",
                      {OptionGroup::model, OptionGroup::data, OptionGroup::recipe, OptionGroup::job,
                       OptionGroup::compute, OptionGroup::communication},
                      {{"warmup", "Steps before the timed ones", &bench.warmup},
                       {"steps", "Timed steps", &bench.steps, 1},
                       {"json", "Write the result to this file, as one JSON object", &bench.json}},
                      [&](const Job& job) { return run(job, bench, signals); }});
}
