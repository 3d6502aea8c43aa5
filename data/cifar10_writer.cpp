#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
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

// Beside its final place; what is still there at the end is removed.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& directory) {
    std::string name = (directory / ".cifar-10-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;  // with the reason in errno, and no path
    path_ = name;
    chmod(name.c_str(), 0755);  // mkdtemp's folders are private
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

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
  const auto cannot_make = [&](const std::string& reason) {
    fail(ExitCode::data, "cannot make the folder {}: {}. Choose another directory.", folder.string(), reason);
  };
  std::error_code error;
  fs::create_directories(directory, error);
  if (fs::exists(folder, error)) cannot_make("it exists already, and nothing is overwritten");
  const TemporaryFolder temporary(directory);
  if (temporary.path().empty()) cannot_make(std::strerror(errno));
  const std::int64_t fifth = pair.train.size() / 5;
  for (std::int64_t i = 0; i < 5; ++i) {
    write_file(temporary.path() / fmt::format("data_batch_{}.bin", i + 1),
               records(pair.train, i * fifth, fifth));
  }
  write_file(temporary.path() / "test_batch.bin", records(pair.test, 0, pair.test.size()));
  std::string names;
  for (const char* name : class_names) names += fmt::format("{}\n", name);
  write_file(temporary.path() / "batches.meta.txt", names);
  fs::rename(temporary.path(), folder, error);
  if (error) cannot_make(error.message());
  return folder.string();
}

}  // namespace lockstep
