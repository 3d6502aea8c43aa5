#include "core/trace.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace lockstep {
namespace {

// A JSON string. Names of spans come from parameters and files, so any byte may be in them.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string name_of_this_thread() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

}  // namespace

Tracer::Tracer(int rank) : rank_(rank), start_(std::chrono::steady_clock::now()) {}

std::int64_t Tracer::now() const {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now() - start_).count();
}

void Tracer::add(std::string name, const char* category, std::int64_t begin, std::int64_t end) {
  thread_local const std::int64_t thread = gettid();
  const std::lock_guard lock(mutex_);
  records_.push_back({std::move(name), category, begin, end, thread});
  if (!threads_.contains(thread)) threads_.emplace(thread, name_of_this_thread());
}

void Tracer::open(const std::string& path) {
  path_ = path;
  file_.reset(std::fopen(path.c_str(), "w"));
  if (!file_) cannot_write();
}

void Tracer::cannot_write() const {
  fail(ExitCode::data, "cannot write the trace file {}: {}. Choose another path.", path_,
       std::strerror(errno));
}

void Tracer::write() {
  LOCKSTEP_CHECK(file_ != nullptr, "write() without open()");
  const std::lock_guard lock(mutex_);
  std::string text = "{\"traceEvents\": [\n";
  text +=
      fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"rank {}"}}}})", rank_, rank_);
  for (const auto& [thread, name] : threads_) {
    text += fmt::format(
        ",\n"
        R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
        rank_, thread, quoted(name));
  }
  for (const Record& record : records_) {
    text += fmt::format(
        ",\n"
        R"({{"ph":"X","pid":{},"tid":{},"name":{},"cat":{},"ts":{:.3f},"dur":{:.3f}}})",
        rank_, record.thread, quoted(record.name), quoted(record.category),
        static_cast<double>(record.begin) / 1e3, static_cast<double>(record.end - record.begin) / 1e3);
  }
  text += "\n]}\n";
  // A short write, a full disk at fclose: each is an error, since half a JSON file cannot be read.
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) cannot_write();
  if (std::fclose(file_.release()) != 0) cannot_write();
}

}  // namespace lockstep
