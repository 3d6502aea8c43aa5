#include "apps/training/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/training/agree.h"

namespace lockstep {
Trainer::Trainer(Engine& engine, std::string config, bool on_terminal, std::shared_ptr<spdlog::logger> logger,
                 StartupClock& clock, const StopSignals& signals)
    : engine_(engine),
      options_(engine.options()),
      config_(std::move(config)),
      logger_(std::move(logger)),
      clock_(clock),
      schedule_(options_, engine.steps_per_epoch(), options_.batch_size * engine.communicator().size()),
      progress_(engine.communicator().rank() == 0, on_terminal, engine.communicator().size()),
      signals_(signals) {}

ExitCode Trainer::run() {
  start();
  const ExitCode code = options_.evaluate_only ? evaluate_only() : train();
  write_trace();
  return code;
}

ExitCode Trainer::train() {
  if (const int signal = signal_at_start(); signal != 0) return stop(signal);
  while (state_.epoch < options_.epochs) {
    epoch_begin_ = std::chrono::steady_clock::now();
    const ExitCode code = train_epoch();
    if (code != ExitCode::ok) return code;
    const int signal = finish_epoch();
    if (signal != 0) return stop(signal);
  }
  save();
  return ExitCode::ok;
}

// Steps are enqueued ahead of the results that are read, by as many as the device may have under way. A
// checkpoint and the end of an epoch want all results.
ExitCode Trainer::train_epoch() {
  const std::vector<std::int64_t> indices =
      engine_.epoch_indices(state_.epoch, engine_.communicator().rank());
  TrainStep& step = engine_.step();
  std::int64_t enqueued = state_.step_in_epoch;
  while (state_.step_in_epoch < engine_.steps_per_epoch()) {
    if (step.pending() <= step.lag() && enqueued < last_step_before_save()) {
      enqueue_step(indices, enqueued++);
      continue;
    }
    const TrainStep::Result result = step.collect();
    finish_step(result);
    if (result.signal != 0) {
      while (step.pending() > 0) finish_step(step.collect());
      return stop(result.signal);
    }
    if (options_.checkpoint_interval != Options::kUnset && state_.step % options_.checkpoint_interval == 0)
      save();
  }
  return ExitCode::ok;
}

void Trainer::enqueue_step(const std::vector<std::int64_t>& indices, std::int64_t step_in_epoch) {
  TrainStep::Request request;
  request.samples = engine_.batch(indices, step_in_epoch);
  request.epoch = state_.epoch;
  request.learning_rate = schedule_.learning_rate(state_.epoch, step_in_epoch);
  request.signal = signals_.arrived();
  engine_.step().enqueue(request);
}

// In this epoch.
std::int64_t Trainer::last_step_before_save() const {
  const std::int64_t interval = options_.checkpoint_interval;
  if (interval == Options::kUnset) return engine_.steps_per_epoch();
  return std::min(engine_.steps_per_epoch(), state_.step_in_epoch + interval - state_.step % interval);
}

void Trainer::finish_step(const TrainStep::Result& result) {
  const double lr = result.learning_rate;
  const std::int64_t images = result.samples * engine_.communicator().size();
  const double seconds = result.ms_step / 1000;
  if (metrics_) {
    metrics_->write(
        StepRecord{state_.epoch, state_.step, result.loss, lr, static_cast<double>(images) / seconds});
  }
  if (result.overflow) {
    count_overflow(result);
  } else if (result.skipped) {
    count_skipped(result);
  } else {
    state_.skipped_in_a_row = 0;
  }
  if (!result.skipped || result.overflow) {
    state_.loss_sum += result.loss * static_cast<double>(result.samples);
    state_.loss_samples += result.samples;
  }
  state_.loss_scale = result.loss_scale;
  const std::int64_t steps = engine_.steps_per_epoch();
  const std::int64_t left = (options_.epochs - state_.epoch) * steps - state_.step_in_epoch - 1;
  progress_.step(
      {state_.epoch, options_.epochs, state_.step_in_epoch, steps, left, result.loss, lr, images, seconds});
  ++state_.step;
  ++state_.step_in_epoch;
  if (!first_step_done_) {
    first_step_done_ = true;
    clock_.phase("first step");
    progress_.print(clock_.summary());
    progress_.print(fmt::format("communicator: {}", engine_.communicator().description()));
    progress_.print(memory_text());
  }
}

// Every rank takes part.
std::string Trainer::memory_text() {
  constexpr double kMiB = 1 << 20;
  const MemoryUse mine = engine_.context().backend.memory_use();
  std::vector<std::int64_t> all(static_cast<std::size_t>(engine_.communicator().size()));
  engine_.communicator().all_gather_host(&mine.used, sizeof mine.used, all.data(), "memory of the ranks");
  std::string text = "memory:";
  for (const std::int64_t used : all) text += fmt::format(" {:.0f}", static_cast<double>(used) / kMiB);
  const std::string total =
      mine.total > 0 ? fmt::format(" of {:.0f}", static_cast<double>(mine.total) / kMiB) : "";
  return text + total + (all.size() > 1 ? " MiB (by rank)" : " MiB");
}

// All ranks come here together. The tensor is looked for where the loss was not finite.
void Trainer::count_skipped(const TrainStep::Result& result) {
  ++state_.skipped_steps;
  ++state_.skipped_in_a_row;
  const std::vector<std::string> all = all_gather_text(engine_.communicator(), result.non_finite);
  std::size_t rank = 0;
  while (rank + 1 < all.size() && all[rank].empty()) ++rank;
  if (is_root()) {
    logger_->warn(
        "step {}: the loss of rank {} is not finite (first: {}); every rank skips the step, {} in a row",
        state_.step, rank, all[rank], state_.skipped_in_a_row);
  }
  if (state_.skipped_in_a_row < options_.max_skipped_steps) return;
  throw AgreedError(
      ExitCode::non_finite,
      fmt::format("the loss was not finite for {} steps in a row, up to step {}. On rank {} the first tensor "
                  "that is not finite: {}. Lower --lr, lengthen --warmup-epochs, or resume from an earlier "
                  "checkpoint",
                  state_.skipped_in_a_row, state_.step, rank, all[rank]));
}

// With loss scaling (fp16) a gradient that overflows is no error: the step is skipped and the scale halved.
// At the smallest scale nothing is left to halve. Every rank finds the same.
void Trainer::count_overflow(const TrainStep::Result& result) {
  ++state_.skipped_steps;
  if (is_root()) {
    logger_->info("step {}: a gradient overflowed fp16; every rank skips the step, the loss scale is now {}",
                  state_.step, result.loss_scale.scale);
  }
  if (!result.overflow_at_floor) return;
  throw AgreedError(
      ExitCode::non_finite,
      fmt::format(
          "step {}: gradients overflow fp16 even at the smallest loss scale, {}. The first parameter "
          "whose gradient is not finite: {}. Lower --lr, lengthen --warmup-epochs, or use --dtype bf16",
          state_.step, result.loss_scale.scale,
          result.non_finite.empty() ? "that step is gone" : result.non_finite));
}

// Returns a signal that arrived at some rank in the meantime: then the epoch is not finished, all its steps
// are done, and the run that goes on evaluates.
int Trainer::finish_epoch() {
  engine_.broadcast_statistics();
  const Evaluation test = evaluate(engine_, signals_);
  if (test.signal != 0) return test.signal;
  if (options_.checksums) print_checksums();
  EpochRecord record;
  record.epoch = state_.epoch;
  record.train_loss =
      state_.loss_samples > 0 ? state_.loss_sum / static_cast<double>(state_.loss_samples) : 0.0;
  record.test_loss = test.loss;
  record.test_accuracy = test.accuracy;
  record.test_correct = test.correct;
  record.test_total = test.total;
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - epoch_begin_).count();
  if (metrics_) metrics_->write(record);
  progress_.print(fmt::format(
      "epoch {}/{}  train loss {:.4f}  test loss {:.4f}  test accuracy {:.2f}% ({} of {})  {:.1f} s{}",
      record.epoch + 1, options_.epochs, *record.train_loss, test.loss, 100 * test.accuracy, test.correct,
      test.total, record.seconds,
      state_.skipped_steps > 0 ? fmt::format("  skipped steps so far: {}", state_.skipped_steps) : ""));
  ++state_.epoch;
  state_.step_in_epoch = 0;
  state_.loss_sum = 0;
  state_.loss_samples = 0;
  if (options_.checkpoint_interval == Options::kUnset) save();
  return 0;
}

ExitCode Trainer::stop(int signal) {
  save();
  const std::string newest = directory_ ? directory_->newest() : "";
  progress_.print(fmt::format(
      "stopped by {} after {} steps{}", name_of_signal(signal), state_.step,
      newest.empty() ? ": no checkpoint is kept" : fmt::format(": go on with --resume {}", newest)));
  return code_of_signal(signal);
}

ExitCode Trainer::evaluate_only() {
  const auto begin = std::chrono::steady_clock::now();
  const Evaluation test = evaluate(engine_, signals_);
  if (test.signal != 0) {
    progress_.print(fmt::format("stopped by {}", name_of_signal(test.signal)));
    return code_of_signal(test.signal);
  }
  EpochRecord record{state_.epoch, std::nullopt, test.loss, test.accuracy, test.correct, test.total, 0};
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (metrics_) metrics_->write(record);
  progress_.print(fmt::format("test loss {:.4f}  test accuracy {:.2f}% ({} of {})", test.loss,
                              100 * test.accuracy, test.correct, test.total));
  return ExitCode::ok;
}

// One write a line, so that the launcher does not mix the ranks' lines.
void Trainer::print_checksums() {
  const CanonicalModel& model = engine_.canonical();
  Context& context = engine_.context();
  const std::string line =
      fmt::format("checksum epoch={} rank={} weights={} buffers={} optimizer={}", state_.epoch,
                  engine_.communicator().rank(), checksum(context, model.weights),
                  checksum(context, model.buffers), checksum(context, model.momenta));
  if (is_root()) {
    progress_.print(line);
  } else {
    std::fputs((line + '\n').c_str(), stdout);
    std::fflush(stdout);
  }
}

// Only rank 0 writes, and no other rank has to take part: its batch norm statistics are the ones that count.
void Trainer::save() {
  if (!directory_ || (saved_step_ == state_.step && saved_epoch_ == state_.epoch)) return;
  const Span span(engine_.context().tracer, "checkpoint", "epoch");
  if (!directory_->save({run_shape(), state_, config_}, engine_.context(), engine_.canonical())) return;
  saved_step_ = state_.step;
  saved_epoch_ = state_.epoch;
}

RunShape Trainer::run_shape() const {
  return {options_.model,
          options_.stem,
          options_.channels,
          engine_.communicator().size(),
          options_.batch_size,
          engine_.train_data().host().size(),
          engine_.steps_per_epoch(),
          options_.seed};
}

}  // namespace lockstep
