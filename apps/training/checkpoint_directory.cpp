#include "apps/training/checkpoint_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace fs = std::filesystem;

namespace {

// Empty where the directory cannot be read.
std::vector<fs::directory_entry> entries_of(const std::string& directory) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    entries.push_back(*at);
  }
  return entries;
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

}  // namespace

std::vector<std::string> checkpoints_in(const std::string& directory) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  for (const fs::directory_entry& entry : entries_of(directory)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || !name.ends_with(".ckpt")) continue;
    std::error_code error;
    const auto time = entry.last_write_time(error);
    if (!error) found.emplace_back(time, entry.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

void refuse_foreign_checkpoints(const std::string& directory, const std::string& resumed) {
  const std::vector<std::string> existing = checkpoints_in(directory);
  const auto is_resumed = [&](const std::string& path) { return is_same_file(path, resumed); };
  if (existing.empty() || std::any_of(existing.begin(), existing.end(), is_resumed)) return;
  fail(
      ExitCode::checkpoint,
      "--checkpoint-dir {} holds checkpoints of another run, which this one would overwrite: go on from them "
      "with --resume auto, or choose another directory",
      directory);
}

NewestCheckpoint newest_valid_checkpoint(const std::string& directory) {
  NewestCheckpoint newest;
  for (const std::string& path : checkpoints_in(directory)) {
    try {
      newest.file.emplace(path);
      newest.path = path;
      return newest;
    } catch (const Error& error) {
      newest.skipped.emplace_back(error.what());
    }
  }
  return newest;
}

DirectoryLock::DirectoryLock(const std::string& path)
    : descriptor_(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0 || flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(descriptor_);
  fail(ExitCode::checkpoint,
       "--checkpoint-dir {}: another run is writing its checkpoints there: wait for its end, or choose "
       "another "
       "directory",
       path);
}

DirectoryLock::~DirectoryLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

CheckpointDirectory::CheckpointDirectory(std::string path, std::int64_t keep,
                                         std::shared_ptr<spdlog::logger> logger)
    : path_(std::move(path)), keep_(static_cast<std::size_t>(keep)), logger_(std::move(logger)) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) {
    logger_->warn("--checkpoint-dir {}: cannot make the directory: {}. Training goes on", path_,
                  error.message());
    return;
  }
  lock_.emplace(path_);
  for (const fs::directory_entry& entry : entries_of(path_)) {
    // Left by a run that was killed while it wrote.
    if (entry.path().string().ends_with(".ckpt.tmp")) fs::remove(entry.path(), error);
  }
}

void CheckpointDirectory::adopt(const std::string& resumed) {
  written_ = checkpoints_in(path_);
  while (!written_.empty() && !is_same_file(written_.front(), resumed)) written_.erase(written_.begin());
  std::reverse(written_.begin(), written_.end());
}

void CheckpointDirectory::save_config(const std::string& config) {
  const fs::path path = fs::path(path_) / "config.toml";
  const std::string temporary = path.string() + ".tmp";
  std::ofstream file(temporary, std::ios::trunc);
  file << config;
  file.close();
  std::error_code error;
  if (file) fs::rename(temporary, path, error);
  if (!file || error) {
    fs::remove(temporary, error);
    logger_->warn("cannot write {}. Training goes on", path.string());
  }
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
