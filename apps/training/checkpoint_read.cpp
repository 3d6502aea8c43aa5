#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "apps/training/checkpoint_format.h"
#include "core/hash.h"

namespace lockstep {
namespace {

using namespace checkpoint_format;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

struct FileBytes {
  std::unique_ptr<char[]> data;
  std::int64_t size = 0;
};

FileBytes read_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    fail(ExitCode::checkpoint,
         "checkpoint {0}: this is a directory. Name a file in it, or use --checkpoint-dir {0} --resume auto",
         path);
  }
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  FileBytes bytes;
  if (!file || std::fseek(file.get(), 0, SEEK_END) != 0 || (bytes.size = std::ftell(file.get())) < 0) {
    fail(ExitCode::checkpoint, "checkpoint {}: cannot read: {}", path, std::strerror(errno));
  }
  std::rewind(file.get());
  bytes.data = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(bytes.size) + 1);
  const auto size = static_cast<std::size_t>(bytes.size);
  if (std::fread(bytes.data.get(), 1, size, file.get()) != size) {
    fail(ExitCode::checkpoint, "checkpoint {}: cannot read: {}", path, std::strerror(errno));
  }
  return bytes;
}

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  fail(ExitCode::checkpoint, "checkpoint {}: {}. Use another one, or --resume auto for the newest valid one",
       path, what);
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape) elements *= dim;
  return elements;
}

// Length of the header; refuses what is no checkpoint at all.
std::int64_t header_length(const std::string& path, const FileBytes& bytes) {
  if (bytes.size == 0) damaged(path, "the file is empty");
  const std::string_view magic = kMagic;
  if (bytes.size < kFirstLine || std::string_view(bytes.data.get(), magic.size()) != magic) {
    damaged(path, "this is not a checkpoint of this version of Lockstep");
  }
  const std::string digits(bytes.data.get() + magic.size(), 10);
  const std::int64_t length = std::strtoll(digits.c_str(), nullptr, 10);
  if (length <= 0 || kFirstLine + length > bytes.size)
    damaged(path, "the file is truncated inside its header");
  return length;
}

}  // namespace

CheckpointFile::CheckpointFile(const std::string& path) : path_(path) {
  FileBytes bytes = read_file(path);
  const std::int64_t length = header_length(path, bytes);
  data_begin_ = kFirstLine + length;
  try {
    Contents contents = from_text({bytes.data.get() + kFirstLine, static_cast<std::size_t>(length)});
    header_ = std::move(contents.header);
    entries_ = std::move(contents.entries);
  } catch (const std::exception& error) {
    damaged(path, fmt::format("its header is damaged ({})", error.what()));
  }
  std::int64_t expected = data_begin_ + kTrailer;
  for (const CheckpointEntry& entry : entries_) expected += 4 * elements_of(entry.shape);
  if (bytes.size != expected) {
    damaged(path, fmt::format("it has {} bytes and should have {}: the file is {}", bytes.size, expected,
                              bytes.size < expected ? "truncated" : "too long"));
  }
  Hash hash;
  const char* at = bytes.data.get();
  const auto add = [&](std::int64_t count) {
    hash.add_bytes(at, static_cast<std::size_t>(count));
    at += count;
  };
  add(kFirstLine);
  add(length);
  for (const CheckpointEntry& entry : entries_) add(4 * elements_of(entry.shape));
  checksum_ = hash.hex();
  if (std::string_view(at, kTrailer) != fmt::format("checksum {}\n", checksum_)) {
    damaged(path, "its checksum does not fit its contents: the file is damaged");
  }
  bytes_ = std::move(bytes.data);
}

TrainState CheckpointFile::state_for(const RunShape& now) const {
  const RunShape& then = header_.run;
  if (then.model != now.model || then.stem != now.stem || then.channels != now.channels) {
    fail(ExitCode::checkpoint,
         "checkpoint {} is of {} with the {} stem and {} channels, this run trains {} with the {} stem and "
         "{} channels: "
         "give --model {} --stem {} --channels {}, or another checkpoint",
         path_, then.model, then.stem, then.channels, now.model, now.stem, now.channels, then.model,
         then.stem, then.channels);
  }
  TrainState state = header_.state;
  const bool between_epochs = state.step_in_epoch == 0 || state.step_in_epoch == then.steps_per_epoch;
  const auto must_equal = [&](const char* what, std::int64_t a, std::int64_t b) {
    if (a == b || between_epochs) return;
    fail(ExitCode::checkpoint,
         "checkpoint {} was written inside epoch {} (after {} of {} steps) with {} {}, this run has {}: "
         "resume with {}, or from a checkpoint between two epochs",
         path_, state.epoch, state.step_in_epoch, then.steps_per_epoch, what, a, b, a);
  };
  must_equal("ranks:", then.world_size, now.world_size);
  must_equal("--batch-size", then.batch_size, now.batch_size);
  must_equal("training samples:", then.train_samples, now.train_samples);
  must_equal("--seed", then.seed, now.seed);
  if (state.step_in_epoch == then.steps_per_epoch) state.step_in_epoch = now.steps_per_epoch;
  return state;
}

void CheckpointFile::load(Context& context, const CanonicalModel& model) const {
  const char* at = bytes_.get() + data_begin_;
  std::size_t next = 0;
  const auto load_all = [&](const char* kind, const std::vector<CanonicalTensor>& tensors) {
    for (const CanonicalTensor& tensor : tensors) {
      const std::vector<std::int64_t> shape = canonical_shape(tensor.view);
      const bool there = next < entries_.size();
      if (!there || entries_[next].kind != kind || entries_[next].name != tensor.name ||
          entries_[next].shape != shape) {
        fail(ExitCode::checkpoint,
             "checkpoint {} holds {} where this run has {} {} of shape {}: it is of another model", path_,
             there ? fmt::format("{} {} of shape {}", entries_[next].kind, entries_[next].name,
                                 entries_[next].shape)
                   : "nothing",
             kind, tensor.name, shape);
      }
      from_canonical(context, reinterpret_cast<const float*>(at), tensor.view);
      at += tensor.view.bytes();
      ++next;
    }
  };
  load_all("weight", model.weights);
  load_all("buffer", model.buffers);
  load_all("momentum", model.momenta);
}

}  // namespace lockstep
