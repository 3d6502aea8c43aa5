// Trace spans: what ran when, on which thread, as Chrome trace events (chrome://tracing, ui.perfetto.dev).
//
// A Tracer is passed to what it shall time; a null Tracer* costs one branch a span.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/profiler.h"

namespace lockstep {

class Tracer {
 public:
  explicit Tracer(int rank);
  // Nanoseconds since the tracer was made.
  std::int64_t now() const;
  void add(std::string name, const char* category, std::int64_t begin, std::int64_t end);  // any thread
  // Makes the file that write() fills: what cannot be written is known before the work. Error(data).
  void open(const std::string& path);
  // Writes {"traceEvents": [...]}: pid is the rank, tid the thread. Once, after open(). Error(data).
  void write();

 private:
  struct Record {
    std::string name;
    const char* category;
    std::int64_t begin, end;
    std::int64_t thread;
  };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void cannot_write() const;

  int rank_;
  std::chrono::steady_clock::time_point start_;
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::mutex mutex_;
  std::vector<Record> records_;
  std::map<std::int64_t, std::string> threads_;  // names of the threads seen
};

// Times its own scope, and names it for an attached profiler.
class Span {
 public:
  Span(Tracer* tracer, std::string_view name, const char* category)
      : range_(name),
        tracer_(tracer),
        name_(tracer ? name : ""),
        category_(category),
        begin_(tracer ? tracer->now() : 0) {}
  ~Span() {
    if (tracer_) tracer_->add(std::move(name_), category_, begin_, tracer_->now());
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  ProfilerRange range_;
  Tracer* tracer_;
  std::string name_;
  const char* category_;
  std::int64_t begin_;
};

}  // namespace lockstep
