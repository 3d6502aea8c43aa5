// Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009; the binary version of its data
// set.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <system_error>

#include "core/error.h"
#include "data/dataset.h"
#include "data/pixel_memory.h"
#include "data/record_file.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Files = std::vector<std::unique_ptr<RecordFile>>;

constexpr std::array kTrainFiles = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                    "data_batch_4.bin", "data_batch_5.bin"};
constexpr const char* kTestFile = "test_batch.bin";
constexpr const char* kSubdirectory = "cifar-10-batches-bin";

Dataset empty_cifar10() {
  Dataset dataset;
  dataset.name = "cifar10";
  // Over the 50,000 training pictures, per channel.
  const float mean[3] = {0.4914f, 0.4822f, 0.4465f};
  const float deviation[3] = {0.2470f, 0.2435f, 0.2616f};
  std::copy(mean, mean + 3, dataset.mean);
  std::copy(deviation, deviation + 3, dataset.deviation);
  return dataset;
}

bool holds_a_batch_file(const fs::path& directory) {
  std::error_code ignored;
  const auto exists = [&](const char* name) { return fs::exists(directory / name, ignored); };
  return exists(kTestFile) || std::any_of(kTrainFiles.begin(), kTrainFiles.end(), exists);
}

// The directory itself, or the folder that unpacking the official archive makes in it.
fs::path find_directory(const std::string& given) {
  const fs::path directory(given);
  std::error_code error;
  const bool is_directory = fs::is_directory(directory, error);
  if (!is_directory) {
    const std::string reason = error ? error.message() : "it is not a directory";
    fail(ExitCode::data,
         "data directory {}: {}. Give an existing one, or fetch CIFAR-10: scripts/download_cifar10 {}", given,
         reason, given);
  }
  if (holds_a_batch_file(directory)) return directory;
  if (holds_a_batch_file(directory / kSubdirectory)) return directory / kSubdirectory;
  if (fs::exists(directory / "data_batch_1", error) || fs::exists(directory / "cifar-10-batches-py", error)) {
    fail(ExitCode::data,
         "data directory {} holds the Python version of CIFAR-10; Lockstep reads the binary version: "
         "scripts/download_cifar10 DIR",
         given);
  }
  fail(ExitCode::data,
       "data directory {}: no CIFAR-10 batch files ({} to {}, {}) in it or in its {}. Fetch them: "
       "scripts/download_cifar10 {}",
       given, kTrainFiles.front(), kTrainFiles.back(), kTestFile, kSubdirectory, given);
}

RecordFile& open_batch(Files& files, const fs::path& path, const Dataset& dataset) {
  files.push_back(std::make_unique<RecordFile>(path.string(), dataset.image_bytes(), dataset.classes));
  return *files.back();
}

// A file cut at the end of a record looks whole; only its siblings show that it is not.
void check_equal_sizes(const Files& files) {
  const RecordFile& first = *files.front();
  for (const auto& file : files) {
    if (file->records() != first.records()) {
      const auto& [less, more] = std::minmax(
          first, *file, [](const RecordFile& a, const RecordFile& b) { return a.records() < b.records(); });
      fail(ExitCode::data,
           "{} has {} records but {} has {}: the five training files of CIFAR-10 are equally long, so one is "
           "incomplete. Fetch the data set again: scripts/download_cifar10 DIR.",
           less.path(), less.records(), more.path(), more.records());
    }
  }
}

// The test file has no sibling, but CIFAR-10 and its usual subsets hold every class equally often. Nine
// classes of one count and a tenth with one less: that is a balanced file without its last record.
void check_no_record_is_missing(const Dataset& test, const std::string& path) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(test.classes));
  for (const std::int32_t label : test.labels) ++counts[static_cast<std::size_t>(label)];
  const auto least = std::min_element(counts.begin(), counts.end());
  const std::int64_t full = *least + 1;
  if (full < 2 || std::count(counts.begin(), counts.end(), full) != test.classes - 1) return;
  fail(ExitCode::data,
       "{} has {} records: {} of class {} and {} of each other class, so one record is missing. Fetch the "
       "data set again: scripts/download_cifar10 DIR. (A set of your own: keep the classes balanced.)",
       path, test.size(), *least, least - counts.begin(), full);
}

void read_all(Dataset& dataset, const Files& files) {
  std::int64_t records = 0;
  for (const auto& file : files) records += file->records();
  dataset.labels.resize(static_cast<std::size_t>(records));
  allocate_pixels(dataset.images, records * dataset.image_bytes());
  std::int64_t done = 0;
  for (const auto& file : files) {
    file->read(dataset.images.data() + done * dataset.image_bytes(), dataset.labels.data() + done);
    done += file->records();
  }
}

}  // namespace

DatasetPair load_cifar10(const std::string& directory) {
  const fs::path folder = find_directory(directory);
  DatasetPair pair{empty_cifar10(), empty_cifar10()};
  // All six are opened and checked before the first is read: a bad file is reported at once.
  Files train;
  Files test;
  for (const char* name : kTrainFiles) open_batch(train, folder / name, pair.train);
  open_batch(test, folder / kTestFile, pair.test);
  check_equal_sizes(train);
  read_all(pair.train, train);
  read_all(pair.test, test);
  check_no_record_is_missing(pair.test, test.front()->path());
  return pair;
}

}  // namespace lockstep
