#include <algorithm>
#include <filesystem>

#include "batch_files.h"
#include "catch.h"
#include "core/error.h"
#include "data/dataset.h"

using namespace lockstep;
using lockstep::test::BatchFiles;
using lockstep::test::kRecord;
using lockstep::test::records;

namespace {

// The message of the Error(code) that `action` throws; each of `parts` must be in it.
template <class Action>
void check_error(ExitCode code, const Action& action, const std::vector<std::string>& parts) {
  std::string message = "(no error)";
  ExitCode got = ExitCode::ok;
  try {
    action();
  } catch (const Error& error) {
    message = error.what();
    got = error.code();
  }
  INFO(message);
  CHECK(got == code);
  for (const std::string& part : parts) {
    INFO("expected: " << part);
    CHECK(message.find(part) != std::string::npos);
  }
}

void check_load_error(const std::string& directory, const std::vector<std::string>& parts) {
  check_error(
      ExitCode::data, [&] { load_cifar10(directory); }, parts);
}

bool equal_record(const Dataset& dataset, std::int64_t i, const std::string& bytes, std::int64_t record) {
  const auto* expected = reinterpret_cast<const std::uint8_t*>(bytes.data()) + record * kRecord;
  const std::uint8_t* pixels = dataset.images.data() + i * dataset.image_bytes();
  return dataset.labels[static_cast<std::size_t>(i)] == expected[0] &&
         std::equal(pixels, pixels + dataset.image_bytes(), expected + 1);
}

}  // namespace

TEST_CASE("a good directory") {
  // 600 records a file: more than one call of the kernel reads.
  const auto where = GENERATE(std::string(), std::string("cifar-10-batches-bin"));
  const BatchFiles files(600, 50, where);
  const DatasetPair pair = load_cifar10(files.root());
  REQUIRE(pair.train.size() == 3000);
  REQUIRE(pair.test.size() == 50);
  REQUIRE(pair.train.images.size() == 3000 * 3072);
  CHECK(pair.train.name == "cifar10");
  CHECK(pair.train.mean[0] == Approx(0.4914));
  CHECK(pair.test.deviation[2] == Approx(0.2616));
  for (int file = 0; file < 5; ++file) {
    const std::string bytes = records(600, file + 1);
    for (int i = 0; i < 600; ++i) REQUIRE(equal_record(pair.train, file * 600 + i, bytes, i));
  }
  for (int i = 0; i < 50; ++i) REQUIRE(equal_record(pair.test, i, records(50), i));
}

TEST_CASE("any equal number of records is a data set") {
  CHECK(load_cifar10(BatchFiles(1, 1).root()).train.size() == 5);
  CHECK(load_cifar10(BatchFiles(3, 12).root()).test.size() == 12);
}

TEST_CASE("a missing directory") {
  const BatchFiles files(1, 1);
  check_load_error(files.root() + "/nowhere",
                   {files.root() + "/nowhere", "No such file", "download_cifar10"});
  check_load_error(files.path("test_batch.bin"), {"test_batch.bin", "not a directory"});
  const std::string empty = files.path("empty");
  std::filesystem::create_directory(empty);
  check_load_error(empty, {empty, "no CIFAR-10 batch files", "download_cifar10"});
}

TEST_CASE("the Python version is named") {
  const BatchFiles files(1, 1);
  const std::string python = files.path("python");
  std::filesystem::create_directories(python + "/cifar-10-batches-py");
  check_load_error(python, {python, "Python version"});
}

TEST_CASE("a missing or unreadable file") {
  const BatchFiles files(2, 2);
  const std::string name = GENERATE("data_batch_1.bin", "data_batch_4.bin", "test_batch.bin");
  std::filesystem::remove(files.path(name));
  check_load_error(files.root(), {files.path(name), "missing", "download_cifar10"});
  std::filesystem::create_directory(files.path(name));
  check_load_error(files.root(), {files.path(name), "not a regular file"});
  std::filesystem::remove(files.path(name));
  // A link to itself cannot be opened by anybody, root included.
  std::filesystem::create_symlink(name, files.path(name));
  check_load_error(files.root(), {files.path(name), "cannot open", "symbolic links"});
}

TEST_CASE("a file of the wrong length") {
  const BatchFiles files(20, 20);
  const std::string name = GENERATE("data_batch_1.bin", "data_batch_5.bin", "test_batch.bin");
  SECTION("one byte short") {
    files.resize(name, -1);
    check_load_error(files.root(), {files.path(name), "61459 bytes", "19 whole records", "(1 short"});
  }
  SECTION("one byte long") {
    files.resize(name, 1);
    check_load_error(files.root(), {files.path(name), "61461 bytes", "20 whole records", "1 bytes more"});
  }
  SECTION("half a record") {
    files.write(name, records(1).substr(0, 1500));
    check_load_error(files.root(), {files.path(name), "1500 bytes", "0 whole records"});
  }
  SECTION("empty") {
    files.write(name, "");
    check_load_error(files.root(), {files.path(name), "empty"});
  }
}

TEST_CASE("a file one record short") {
  const BatchFiles files(20, 20);
  SECTION("of the training files") {
    files.resize("data_batch_3.bin", -kRecord);
    check_load_error(files.root(), {files.path("data_batch_3.bin") + " has 19", "data_batch_1.bin has 20"});
  }
  SECTION("the first of them") {
    files.resize("data_batch_1.bin", -kRecord);
    check_load_error(files.root(), {files.path("data_batch_1.bin") + " has 19", "data_batch_2.bin has 20"});
  }
  SECTION("the test file") {
    files.resize("test_batch.bin", -kRecord);
    check_load_error(files.root(),
                     {files.path("test_batch.bin") + " has 19", "class 9", "one record is missing"});
  }
}

TEST_CASE("a label above 9") {
  const BatchFiles files(600, 600);
  const std::string name = GENERATE("data_batch_2.bin", "test_batch.bin");
  const std::int64_t record = GENERATE(0, 511, 512, 599);
  std::string bytes = records(600);
  bytes[static_cast<std::size_t>(record * kRecord)] = 10;
  files.write(name, bytes);
  check_load_error(files.root(),
                   {files.path(name), "label 10 at byte " + std::to_string(record * kRecord) + " ",
                    "record " + std::to_string(record)});
}

TEST_CASE("text instead of a batch file") {
  const BatchFiles files(20, 20);
  const std::string name = GENERATE("data_batch_1.bin", "test_batch.bin");
  files.write(name, "\n<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n");
  check_load_error(files.root(),
                   {files.path(name), "web page (HTML)", "<!DOCTYPE html>", "download_cifar10"});
  files.write(name, "version https://git-lfs.github.com/spec/v1\n");
  check_load_error(files.root(), {files.path(name), "text file", "version https"});
  // Of a length that batch files have, too.
  files.write(name, "<html>" + std::string(20 * kRecord - 6, ' '));
  check_load_error(files.root(), {files.path(name), "web page (HTML)"});
}

TEST_CASE("pixels that look like text are pixels") {
  const BatchFiles files(20, 20);
  std::string bytes(20 * kRecord, 'a');
  for (int i = 0; i < 20; ++i) bytes[static_cast<std::size_t>(i * kRecord)] = 9;
  files.write("data_batch_1.bin", bytes);
  CHECK(load_cifar10(files.root()).train.labels[0] == 9);
}

TEST_CASE("limit takes the first samples") {
  DatasetPair pair = load_cifar10(BatchFiles(20, 20).root());
  const Dataset whole = pair.train;
  limit(pair.train, 33, "--limit-train");
  CHECK(pair.train.size() == 33);
  CHECK(std::equal(pair.train.labels.begin(), pair.train.labels.end(), whole.labels.begin()));
  REQUIRE(pair.train.images.size() == 33 * 3072);
  CHECK(std::equal(pair.train.images.begin(), pair.train.images.end(), whole.images.begin()));
  limit(pair.train, 33, "--limit-train");
  const auto too_many = [&] { limit(pair.train, 34, "--limit-train"); };
  check_error(ExitCode::usage, too_many, {"--limit-train", "34", "33"});
  const auto none = [&] { limit(pair.test, 0, "--limit-test"); };
  check_error(ExitCode::usage, none, {"--limit-test 0"});
  CHECK(pair.train.size() == 33);
}

TEST_CASE("what is written is read back, and nothing is overwritten") {
  const BatchFiles files(1, 1);
  const DatasetPair pair = make_synthetic(5);
  const std::string directory = files.path("new/folder");
  const std::string folder = write_cifar10(pair, synthetic_class_names(), directory);
  const DatasetPair copy = load_cifar10(directory);
  CHECK(copy.train.labels == pair.train.labels);
  CHECK((copy.train.images == pair.train.images));
  CHECK(copy.test.labels == pair.test.labels);
  CHECK((copy.test.images == pair.test.images));
  CHECK(std::filesystem::exists(folder + "/batches.meta.txt"));
  CHECK(std::distance(std::filesystem::directory_iterator(directory), {}) == 1);
  const auto again = [&] { write_cifar10(pair, synthetic_class_names(), directory); };
  check_error(ExitCode::data, again, {folder, "exists already"});
  CHECK(std::distance(std::filesystem::directory_iterator(directory), {}) == 1);
  const auto below_a_file = [&] { write_cifar10(pair, {}, files.path("test_batch.bin")); };
  check_error(ExitCode::data, below_a_file, {"test_batch.bin", "Not a directory"});
}
