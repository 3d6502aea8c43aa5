// --checkpoint-dir: names, how many stay, and which one --resume auto takes.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/training/checkpoint.h"

namespace lockstep {

class CheckpointDirectory {
 public:
  // Makes the directory. What cannot be written is logged and does not end the run: it would lose what it has
  // trained.
  CheckpointDirectory(std::string path, int keep, std::shared_ptr<spdlog::logger> logger);

  // Checkpoints that a resumed run finds count among the `keep` that stay; those of an earlier run do not.
  void adopt_existing();
  // Writes step-<step>.ckpt and removes the oldest beyond `keep`. False, with a warning, where that failed;
  // the previous checkpoints then stay.
  bool save(const CheckpointHeader& header, Context& context, const CanonicalModel& model);

 private:
  std::string path_;
  std::size_t keep_;
  std::shared_ptr<spdlog::logger> logger_;
  std::vector<std::string> written_;  // oldest first
};

// Files named step-*.ckpt, newest first (by time of writing, then by name).
std::vector<std::string> checkpoints_in(const std::string& directory);

struct NewestCheckpoint {
  std::string path;                  // empty: there is none
  std::vector<std::string> skipped;  // messages of those that are newer and not valid
};
NewestCheckpoint newest_valid_checkpoint(const std::string& directory);

}  // namespace lockstep
