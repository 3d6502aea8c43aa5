// The metrics file: its lines, and what a resumed run keeps of it.
#include "apps/training/metrics.h"

#include <filesystem>
#include <limits>

#include "catch.h"
#include "core/error.h"
#include "temporary_directory.h"

using namespace lockstep;
using test::read_text;
using test::TemporaryDirectory;

namespace {

std::string step_line(int epoch, int step) {
  return "{\"epoch\":" + std::to_string(epoch) + ",\"step\":" + std::to_string(step) +
         ",\"loss\":1.5,\"lr\":0.1,\"images_per_second\":64.0}\n";
}
const std::string kEpochLine =
    "{\"epoch\":0,\"train_loss\":1.5,\"test_loss\":2.0,\"test_accuracy\":0.25,\"test_correct\":1,\"test_"
    "total\":4,"
    "\"seconds\":3.0}\n";

void write_run(const std::string& path) {
  MetricsFile metrics(path, MetricsFile::Start::overwrite);
  metrics.write(StepRecord{0, 0, 1.5, 0.1, 64});
  metrics.write(StepRecord{0, 1, 1.5, 0.1, 64});
  metrics.write(EpochRecord{0, 1.5, 2.0, 0.25, 1, 4, 3.0});
  metrics.write(StepRecord{1, 2, 1.5, 0.1, 64});
}

}  // namespace

TEST_CASE("the lines of a fresh run") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("m.jsonl");
  test::write_text(path, "an earlier run\n");
  write_run(path);
  CHECK(read_text(path) == step_line(0, 0) + step_line(0, 1) + kEpochLine + step_line(1, 2));
}

TEST_CASE("numbers are written with the fewest digits that read back as the same") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("m.jsonl");
  const double loss = GENERATE(0.1, 2.6516523361206055, 1e-300, 1.0 / 3.0);
  MetricsFile(path, MetricsFile::Start::overwrite).write(StepRecord{0, 0, loss, 0.1, 1});
  const std::string text = read_text(path);
  const std::string value = text.substr(text.find("\"loss\":") + 7);
  CHECK(std::strtod(value.c_str(), nullptr) == loss);
  CHECK(text.find("\"lr\":0.1,") != std::string::npos);
}

TEST_CASE("a loss that is not finite is null: JSON has no NaN") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("m.jsonl");
  MetricsFile(path, MetricsFile::Start::overwrite)
      .write(StepRecord{0, 0, std::numeric_limits<double>::quiet_NaN(), 0.1, 1});
  CHECK(read_text(path).find("\"loss\":null") != std::string::npos);
}

TEST_CASE("each line is in the file when write returns") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("m.jsonl");
  MetricsFile metrics(path, MetricsFile::Start::overwrite);
  metrics.write(StepRecord{0, 0, 1.5, 0.1, 64});
  CHECK(read_text(path) == step_line(0, 0));
}

TEST_CASE("a resumed run cuts what it will write again") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("m.jsonl");
  write_run(path);

  SECTION("inside the first epoch: its summary goes too") {
    MetricsFile metrics(path, MetricsFile::Start::resume, 0, 1);
    CHECK(read_text(path) == step_line(0, 0));
    metrics.write(StepRecord{0, 1, 1.5, 0.1, 64});
    CHECK(read_text(path) == step_line(0, 0) + step_line(0, 1));
  }
  SECTION("after the last step of an epoch, before its evaluation") {
    const MetricsFile metrics(path, MetricsFile::Start::resume, 0, 2);
    CHECK(read_text(path) == step_line(0, 0) + step_line(0, 1));
  }
  SECTION("between two epochs the summary stays") {
    const MetricsFile metrics(path, MetricsFile::Start::resume, 1, 2);
    CHECK(read_text(path) == step_line(0, 0) + step_line(0, 1) + kEpochLine);
  }
  SECTION("a line that a crash cut in two goes") {
    const std::string whole = read_text(path);
    test::write_text(path, whole + "{\"epoch\":1,\"st");
    const MetricsFile metrics(path, MetricsFile::Start::resume, 1, 3);
    CHECK(read_text(path) == whole);
  }
  SECTION("a file with lines that are not ours is refused, and stays") {
    const std::string other = GENERATE("", "3", "{\"step\":\"x\"}", "{\"epoch\":[]}", "# notes");
    const std::string text = read_text(path) + other + "\n";
    test::write_text(path, text);
    try {
      const MetricsFile metrics(path, MetricsFile::Start::resume, 1, 3);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
      CHECK(std::string(error.what()).find("m.jsonl: line 5") != std::string::npos);
    }
    CHECK(read_text(path) == text);
    CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
  }
  SECTION("no temporary file stays") {
    const MetricsFile metrics(path, MetricsFile::Start::resume, 1, 2);
    CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
  }
  SECTION("evaluation only appends") {
    const std::string whole = read_text(path);
    MetricsFile(path, MetricsFile::Start::append).write(EpochRecord{1, std::nullopt, 2.0, 0.25, 1, 4, 3.0});
    CHECK(read_text(path).substr(0, whole.size()) == whole);
    CHECK(read_text(path).find("\"train_loss\":null") != std::string::npos);
  }
}

TEST_CASE("a file that cannot be written is an error that names it") {
  try {
    const MetricsFile metrics("/nowhere/m.jsonl", MetricsFile::Start::overwrite);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    CHECK(std::string(error.what()).find("/nowhere/m.jsonl") != std::string::npos);
  }
}
