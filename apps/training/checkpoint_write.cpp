#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/training/checkpoint_format.h"
#include "core/hash.h"

namespace lockstep {
namespace {

using namespace checkpoint_format;

// A file that is gone again unless commit() was reached.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) give_up("cannot create");
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!committed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(descriptor_, from, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) give_up("cannot write");
      from += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }

  void commit(const std::string& final_path) {
    if (::fsync(descriptor_) != 0) give_up("cannot flush");
    if (::close(std::exchange(descriptor_, -1)) != 0) give_up("cannot close");
    if (::rename(path_.c_str(), final_path.c_str()) != 0) give_up("cannot rename");
    committed_ = true;
    sync_directory(std::filesystem::path(final_path).parent_path());
  }

 private:
  // The rename itself must reach the disk. Some file systems cannot flush a directory: the file is whole even
  // so.
  static void sync_directory(const std::filesystem::path& directory) {
    const int descriptor =
        ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
  }
  [[noreturn]] void give_up(const char* what) const {
    fail(ExitCode::checkpoint, "{} {}: {}", what, path_, std::strerror(errno));
  }
  std::string path_;
  int descriptor_ = -1;
  bool committed_ = false;
};

void add_entries(std::vector<CheckpointEntry>& entries, const char* kind,
                 const std::vector<CanonicalTensor>& tensors) {
  for (const CanonicalTensor& tensor : tensors)
    entries.push_back({kind, tensor.name, canonical_shape(tensor.view)});
}

}  // namespace

void write_checkpoint(const std::string& path, const CheckpointHeader& header, Context& context,
                      const CanonicalModel& model) {
  Contents contents{header, {}};
  add_entries(contents.entries, "weight", model.weights);
  add_entries(contents.entries, "buffer", model.buffers);
  add_entries(contents.entries, "momentum", model.momenta);
  std::string text = to_text(contents);
  const std::int64_t unaligned = kFirstLine + static_cast<std::int64_t>(text.size()) + 1;
  text.append(static_cast<std::size_t>((kAlignment - unaligned % kAlignment) % kAlignment), ' ');
  text += '\n';

  TemporaryFile file(path + ".tmp");
  Hash hash;
  const auto write = [&](const void* data, std::size_t bytes) {
    hash.add_bytes(data, bytes);
    file.write(data, bytes);
  };
  const std::string first_line = fmt::format("{}{:010}\n", kMagic, text.size());
  write(first_line.data(), first_line.size());
  write(text.data(), text.size());
  std::vector<float> values;
  for (const auto* tensors : {&model.weights, &model.buffers, &model.momenta}) {
    for (const CanonicalTensor& tensor : *tensors) {
      to_canonical(context, tensor.view, values);
      write(values.data(), values.size() * sizeof(float));
    }
  }
  const std::string trailer = fmt::format("checksum {}\n", hash.hex());
  file.write(trailer.data(), trailer.size());
  file.commit(path);
}

}  // namespace lockstep
