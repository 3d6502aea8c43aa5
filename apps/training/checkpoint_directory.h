// --checkpoint-dir: names, how many stay, and which one --resume auto takes.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/training/checkpoint.h"

namespace lockstep {

// Holds a directory for as long as it lives, against other processes (flock: it goes with the process,
// however that ends). Where the file system has no locks, or the directory cannot be opened, it holds
// nothing.
class DirectoryLock {
 public:
  // Error(checkpoint) where another process holds the directory.
  explicit DirectoryLock(const std::string& path);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_;
};

class CheckpointDirectory {
 public:
  // Makes the directory and holds it: Error(checkpoint) where another run does. What cannot be written is
  // logged and does not end the run: it would lose what it has trained.
  CheckpointDirectory(std::string path, std::int64_t keep, std::shared_ptr<spdlog::logger> logger);

  // A run that goes on from a checkpoint of this directory: it and the older ones count among the `keep` that
  // stay. Newer ones do not: they are damaged, or of a course that was given up.
  void adopt(const std::string& resumed);
  // Writes config.toml.
  void save_config(const std::string& config);
  // Writes step-<step>.ckpt and removes the oldest beyond `keep`. False, with a warning, where that failed;
  // the previous checkpoints then stay.
  bool save(const CheckpointHeader& header, Context& context, const CanonicalModel& model);
  // The path of the newest checkpoint of this run; "" where there is none.
  std::string newest() const { return written_.empty() ? "" : written_.back(); }

 private:
  std::string path_;
  std::size_t keep_;
  std::shared_ptr<spdlog::logger> logger_;
  std::vector<std::string> written_;  // oldest first
  std::optional<DirectoryLock> lock_;
};

// Files named step-*.ckpt, newest first (by time of writing, then by name); none where it cannot be read.
std::vector<std::string> checkpoints_in(const std::string& directory);

// Error(checkpoint) where a run would mix its checkpoints with those of another: the directory holds some,
// and `resumed` (the file that the run goes on from, "" for a fresh one) is none of them.
void refuse_foreign_checkpoints(const std::string& directory, const std::string& resumed);

struct NewestCheckpoint {
  std::string path;  // empty: there is none
  std::optional<CheckpointFile> file;
  std::vector<std::string> skipped;  // messages of those that are newer and not valid
};
NewestCheckpoint newest_valid_checkpoint(const std::string& directory);

}  // namespace lockstep
