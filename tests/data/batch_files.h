// Small CIFAR-10 directories, good ones, to be damaged by the tests.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace lockstep::test {

constexpr std::int64_t kRecord = 3073;

// Record r: label (start + r) % 10 and pixels that tell file position and record.
inline std::string records(int count, int start = 0) {
  std::string bytes(static_cast<std::size_t>(count * kRecord), ' ');
  auto out = bytes.begin();
  for (int r = 0; r < count; ++r) {
    *out++ = static_cast<char>((start + r) % 10);
    for (std::int64_t i = 1; i < kRecord; ++i) *out++ = static_cast<char>((i * 7 + start + r) & 0xff);
  }
  return bytes;
}

class BatchFiles {
 public:
  explicit BatchFiles(int train = 600, int test = 50, const std::string& subdirectory = "") {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-data-XXXXXX").string();
    root_ = mkdtemp(name.data());
    folder_ = subdirectory.empty() ? root_ : root_ + "/" + subdirectory;
    std::filesystem::create_directories(folder_);
    for (int i = 1; i <= 5; ++i) write(train_file(i), records(train, i));
    write("test_batch.bin", records(test));
  }
  ~BatchFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  BatchFiles(const BatchFiles&) = delete;
  BatchFiles& operator=(const BatchFiles&) = delete;

  static std::string train_file(int i) { return "data_batch_" + std::to_string(i) + ".bin"; }
  const std::string& root() const { return root_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << bytes;
  }
  void resize(const std::string& name, std::int64_t change) const {
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path(name)));
    std::filesystem::resize_file(path(name), static_cast<std::uintmax_t>(size + change));
  }

 private:
  std::string root_, folder_;
};

}  // namespace lockstep::test
