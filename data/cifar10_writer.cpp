#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/error.h"
#include "data/dataset.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) fail(ExitCode::data, "cannot write {}: {}", path.string(), std::strerror(errno));
}

// Samples first .. first+count-1 as label byte and picture.
std::string records(const Dataset& dataset, std::int64_t first, std::int64_t count) {
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(count * (dataset.image_bytes() + 1)));
  for (std::int64_t i = first; i < first + count; ++i) {
    bytes += static_cast<char>(dataset.labels[static_cast<std::size_t>(i)]);
    const std::uint8_t* pixels = dataset.images.data() + i * dataset.image_bytes();
    bytes.append(pixels, pixels + dataset.image_bytes());
  }
  return bytes;
}

}  // namespace

std::string write_cifar10(const DatasetPair& pair, std::span<const char* const> class_names,
                          const std::string& directory) {
  const fs::path folder = fs::path(directory) / "cifar-10-batches-bin";
  std::error_code error;
  fs::create_directories(directory, error);
  if (!fs::create_directory(folder, error)) {
    const std::string reason = error ? error.message() : "it exists already, and nothing is overwritten";
    fail(ExitCode::data, "cannot make the folder {}: {}. Choose another directory.", folder.string(), reason);
  }
  const std::int64_t fifth = pair.train.size() / 5;
  for (std::int64_t i = 0; i < 5; ++i) {
    write_file(folder / fmt::format("data_batch_{}.bin", i + 1), records(pair.train, i * fifth, fifth));
  }
  write_file(folder / "test_batch.bin", records(pair.test, 0, pair.test.size()));
  std::string names;
  for (const char* name : class_names) names += fmt::format("{}\n", name);
  write_file(folder / "batches.meta.txt", names);
  return folder.string();
}

}  // namespace lockstep
