// The training loop: epochs of steps, evaluation, checkpoints, metrics. Read it together with engine.h (what
// a rank has) and train_step.h (what a step does).
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <optional>
#include <string>

#include "apps/training/checkpoint_directory.h"
#include "apps/training/engine.h"
#include "apps/training/evaluate.h"
#include "apps/training/metrics.h"
#include "apps/training/progress.h"
#include "apps/training/schedule.h"
#include "apps/training/signals.h"
#include "apps/training/startup.h"

namespace lockstep {

class Trainer {
 public:
  // config: the text that is saved with the run. on_terminal: rank 0 may show a live line.
  Trainer(Engine& engine, std::string config, bool on_terminal, std::shared_ptr<spdlog::logger> logger,
          StartupClock& clock, const StopSignals& signals);

  // Trains to the last epoch, or until a signal. ExitCode::ok, interrupted or terminated.
  ExitCode run();

 private:
  void start();
  void open_files();
  void resume();
  ExitCode train();
  int signal_at_start();
  RunShape run_shape() const;
  ExitCode train_epoch();
  void enqueue_step(const std::vector<std::int64_t>& indices, std::int64_t step_in_epoch);
  std::int64_t last_step_before_save() const;
  void finish_step(const TrainStep::Result& result);
  std::string memory_text();
  void count_skipped(const TrainStep::Result& result);
  void count_overflow(const TrainStep::Result& result);
  int finish_epoch();
  ExitCode stop(int signal);
  ExitCode evaluate_only();
  void print_checksums();
  void save();
  void write_trace();
  void dump_indices() const;
  bool is_root() const { return engine_.communicator().rank() == 0; }

  Engine& engine_;
  const Options& options_;
  std::string config_;
  std::shared_ptr<spdlog::logger> logger_;
  StartupClock& clock_;
  Schedule schedule_;
  ProgressLine progress_;
  const StopSignals& signals_;
  TrainState state_;
  std::string resumed_;                           // the checkpoint that it goes on from; empty: none
  std::optional<MetricsFile> metrics_;            // rank 0
  std::optional<CheckpointDirectory> directory_;  // rank 0
  std::int64_t saved_step_ = -1;                  // the step of the newest checkpoint, saved or loaded
  std::int64_t saved_epoch_ = -1;
  std::chrono::steady_clock::time_point epoch_begin_;
  bool first_step_done_ = false;
};

}  // namespace lockstep
