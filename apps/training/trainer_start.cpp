// What a Trainer does before its first step: resume, open files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "apps/training/agree.h"
#include "apps/training/trainer.h"

namespace lockstep {

namespace {

// "trace.json" of rank 1 is "trace.rank1.json".
std::string trace_path(const std::string& path, int rank) {
  if (rank == 0) return path;
  std::filesystem::path own = path;
  return own.replace_extension(fmt::format(".rank{}{}", rank, own.extension().string())).string();
}

}  // namespace

void Trainer::start() {
  if (!options_.resume.empty()) resume();
  all_or_none(engine_.communicator(), [&] { open_files(); });
  clock_.phase("files");
  if (!resumed_.empty() && state_.epoch >= options_.epochs && !options_.evaluate_only) {
    progress_.print(fmt::format("this run is complete: --epochs {} are done", options_.epochs));
  }
}

// What refuses the run comes before anything is written.
void Trainer::open_files() {
  const bool saves = !options_.checkpoint_dir.empty() && !options_.evaluate_only && is_root();
  // With --resume auto and no valid checkpoint there is nothing to lose.
  if (saves && !(options_.resume == "auto" && resumed_.empty())) {
    refuse_foreign_checkpoints(options_.checkpoint_dir, resumed_);
  }
  if (saves) directory_.emplace(options_.checkpoint_dir, options_.keep_checkpoints, logger_);
  if (Tracer* tracer = engine_.context().tracer) {
    tracer->open(trace_path(options_.trace, engine_.communicator().rank()));
  }
  if (!options_.dump_indices.empty() && is_root()) dump_indices();
  if (!options_.metrics.empty() && is_root()) {
    const auto start = options_.evaluate_only ? MetricsFile::Start::append
                       : !resumed_.empty()    ? MetricsFile::Start::resume
                                              : MetricsFile::Start::overwrite;
    metrics_.emplace(options_.metrics, start, state_.epoch, state_.step);
  }
  if (saves) {
    if (!resumed_.empty()) directory_->adopt(resumed_);
    directory_->save_config(config_);
  }
}

// A signal during start-up, at any rank.
int Trainer::signal_at_start() {
  double flags[kSignalFlags];
  set_signal_flags(signals_.arrived(), flags);
  engine_.communicator().all_reduce_host(flags, kSignalFlags, ReduceOp::sum, "signals at start");
  return signal_of_flags(flags);
}

// The run is over and its results are written: a trace that is lost does not make it a failure.
void Trainer::write_trace() {
  Tracer* tracer = engine_.context().tracer;
  if (!tracer) return;
  try {
    tracer->write();
  } catch (const Error& error) {
    logger_->warn("{}", error.what());
  }
}

// Rank 0 chooses the file; every rank reads it and proves by its checksum that it read the same one.
void Trainer::resume() {
  Communicator& communicator = engine_.communicator();
  std::string path = options_.resume;
  std::optional<CheckpointFile> file;
  all_or_none(communicator, [&] {
    if (!is_root()) return;
    if (path == "auto") {
      NewestCheckpoint newest = newest_valid_checkpoint(options_.checkpoint_dir);
      for (const std::string& skipped : newest.skipped) logger_->warn("--resume auto skips {}", skipped);
      path = newest.path;
      file = std::move(newest.file);
    } else {
      file.emplace(path);
    }
  });
  path = all_gather_text(communicator, path)[0];
  const std::string checksum = all_gather_text(communicator, file ? file->checksum() : "")[0];
  if (path.empty()) {
    if (options_.evaluate_only) {
      throw AgreedError(ExitCode::checkpoint,
                        fmt::format("--evaluate-only: no valid checkpoint in {}", options_.checkpoint_dir));
    }
    if (is_root())
      progress_.print(fmt::format("no valid checkpoint in {}: starts fresh", options_.checkpoint_dir));
    return;
  }
  all_or_none(communicator, [&] {
    if (!file) file.emplace(path);
    if (file->checksum() != checksum) {
      fail(ExitCode::checkpoint, "checkpoint {} is not the file that rank 0 read (checksum {} instead of {})",
           path, file->checksum(), checksum);
    }
    if (options_.evaluate_only) {
      state_ = file->header().state;
    } else {
      state_ = file->state_for(run_shape());
    }
    file->load(engine_.context(), engine_.canonical());
    engine_.step().set_loss_scale(state_.loss_scale);
    engine_.store().refresh_workings(engine_.context());
  });
  resumed_ = path;
  saved_step_ = state_.step;
  saved_epoch_ = state_.epoch;
  progress_.print(fmt::format("resumed from {}: epoch {}, step {}", path, state_.epoch, state_.step));
}

// Training only, every epoch and rank, padding included. The sampler is a function, so rank 0 knows them all.
void Trainer::dump_indices() const {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(options_.dump_indices.c_str(), "w"),
                                                             std::fclose);
  const auto check = [&](bool good) {
    if (good) return;
    fail(ExitCode::data, "--dump-indices {}: cannot write: {}", options_.dump_indices, std::strerror(errno));
  };
  check(file != nullptr);
  const char* separator = "[";
  for (std::int64_t epoch = 0; epoch < options_.epochs; ++epoch) {
    for (int rank = 0; rank < engine_.communicator().size(); ++rank) {
      const std::string entry = fmt::format("{}{{\"epoch\":{},\"rank\":{},\"indices\":[{}]}}", separator,
                                            epoch, rank, fmt::join(engine_.epoch_indices(epoch, rank), ","));
      check(std::fputs(entry.c_str(), file.get()) >= 0);
      separator = ",\n";
    }
  }
  check(std::fputs("]\n", file.get()) >= 0 && std::fflush(file.get()) == 0);
}

}  // namespace lockstep
