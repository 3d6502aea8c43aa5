#include "apps/training/checkpoint_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace lockstep {
namespace fs = std::filesystem;

std::vector<std::string> checkpoints_in(const std::string& directory) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || !name.ends_with(".ckpt")) continue;
    const auto time = entry.last_write_time(error);
    if (!error) found.emplace_back(time, entry.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

NewestCheckpoint newest_valid_checkpoint(const std::string& directory) {
  NewestCheckpoint newest;
  for (const std::string& path : checkpoints_in(directory)) {
    try {
      const CheckpointFile file(path);
      newest.path = path;
      return newest;
    } catch (const Error& error) {
      newest.skipped.emplace_back(error.what());
    }
  }
  return newest;
}

CheckpointDirectory::CheckpointDirectory(std::string path, int keep, std::shared_ptr<spdlog::logger> logger)
    : path_(std::move(path)), keep_(static_cast<std::size_t>(keep)), logger_(std::move(logger)) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) {
    logger_->warn("--checkpoint-dir {}: cannot make the directory: {}. Training goes on", path_,
                  error.message());
    return;
  }
  for (const auto& entry :
       fs::directory_iterator(path_, error)) {  // left by a run that was killed while it wrote
    if (entry.path().string().ends_with(".ckpt.tmp")) fs::remove(entry.path(), error);
  }
}

void CheckpointDirectory::adopt_existing() {
  written_ = checkpoints_in(path_);
  std::reverse(written_.begin(), written_.end());
}

bool CheckpointDirectory::save(const CheckpointHeader& header, Context& context,
                               const CanonicalModel& model) {
  const std::string path = (fs::path(path_) / fmt::format("step-{:08}.ckpt", header.state.step)).string();
  try {
    write_checkpoint(path, header, context, model);
  } catch (const Error& error) {
    logger_->warn("no checkpoint at step {}: {}. Training goes on{}", header.state.step, error.what(),
                  written_.empty() ? "" : fmt::format("; the previous one stays: {}", written_.back()));
    return false;
  }
  std::erase(written_, path);
  written_.push_back(path);
  while (written_.size() > keep_) {
    std::error_code error;
    fs::remove(written_.front(), error);
    written_.erase(written_.begin());
  }
  return true;
}

}  // namespace lockstep
