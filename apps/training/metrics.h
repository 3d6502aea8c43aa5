// --metrics FILE: one JSON object a line (docs/interfaces.md), flushed each line. Rank 0 writes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

struct StepRecord {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // over the whole run, from 0
  double loss = 0;        // mean over the ranks; not finite: written as null
  double lr = 0;
  double images_per_second = 0;
};

struct EpochRecord {
  std::int64_t epoch = 0;
  std::optional<double> train_loss;  // none: nothing was trained (--evaluate-only)
  double test_loss = 0;
  double test_accuracy = 0;  // a fraction
  std::int64_t test_correct = 0, test_total = 0;
  double seconds = 0;
};

class MetricsFile {
 public:
  enum class Start {
    overwrite,  // a fresh run
    resume,     // drop what the resumed run will write again, then append
    append,     // keep everything (--evaluate-only)
  };

  // Resume: keeps steps before `step` and summaries of epochs before `epoch`, drops a line that a crash cut
  // in two, and replaces the file by rename, so that a crash here loses nothing. Error(data) where the file
  // cannot be written.
  MetricsFile(const std::string& path, Start start, std::int64_t epoch = 0, std::int64_t step = 0);

  void write(const StepRecord& record);
  void write(const EpochRecord& record);

 private:
  void line(const std::string& text);
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace lockstep
