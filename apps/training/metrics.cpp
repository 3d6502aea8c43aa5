#include "apps/training/metrics.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void cannot_write(const std::string& path) {
  fail(ExitCode::data,
       "--metrics {}: cannot write: {}. Choose a file in a directory that exists and is writable", path,
       std::strerror(errno));
}

// Whether the line comes before the step; nothing where it is no line of a metrics file.
std::optional<bool> is_before(const std::string& text, std::int64_t epoch, std::int64_t step) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) return {};
  const bool is_step = line.contains("step");
  const Json position = line.value(is_step ? "step" : "epoch", Json());
  if (!position.is_number_integer()) return {};
  return position.get<std::int64_t>() < (is_step ? step : epoch);
}

void cut(const std::string& path, std::int64_t epoch, std::int64_t step) {
  std::ifstream in(path);
  if (!in) return;  // nothing to keep: the file is made new
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary, std::ios::trunc);
  std::string text;
  for (std::int64_t number = 1; std::getline(in, text); ++number) {
    const std::optional<bool> before = is_before(text, epoch, step);
    if (!before && !in.eof()) {  // the last line may be cut in two: by the crash
      std::remove(temporary.c_str());
      fail(
          ExitCode::data,
          "--metrics {}: line {} is no metrics, so this resumed run does not go on in it. Name the run's own "
          "file, or a new one",
          path, number);
    }
    if (before.value_or(false)) out << text << '\n';
  }
  out.close();
  if (!out) cannot_write(temporary);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) cannot_write(path);
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, Start start, std::int64_t epoch, std::int64_t step)
    : path_(path) {
  if (start == Start::resume) cut(path, epoch, step);
  file_.reset(std::fopen(path.c_str(), start == Start::overwrite ? "w" : "a"));
  if (!file_) cannot_write(path);
}

// A double is written with the fewest digits that read back as the same double.
void MetricsFile::write(const StepRecord& record) {
  line(Json{{"epoch", record.epoch},
            {"step", record.step},
            {"loss", record.loss},
            {"lr", record.lr},
            {"images_per_second", record.images_per_second}}
           .dump());
}

void MetricsFile::write(const EpochRecord& record) {
  line(Json{{"epoch", record.epoch},
            {"train_loss", record.train_loss ? Json(*record.train_loss) : Json(nullptr)},
            {"test_loss", record.test_loss},
            {"test_accuracy", record.test_accuracy},
            {"test_correct", record.test_correct},
            {"test_total", record.test_total},
            {"seconds", record.seconds}}
           .dump());
}

void MetricsFile::line(const std::string& text) {
  const std::string with_end = text + '\n';
  if (std::fwrite(with_end.data(), 1, with_end.size(), file_.get()) != with_end.size() ||
      std::fflush(file_.get()) != 0) {
    cannot_write(path_);
  }
}

}  // namespace lockstep
