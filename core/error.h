// Errors: one exception type that carries the exit code of the program and what the user can do.
//
// A check evaluates its condition once. Libraries throw; only main() of a program decides to exit.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

// The exit codes of every program (docs/interfaces.md). mpirun reports the same code, but for a rank that a
// signal killed: then it reports 128 + the signal, as 137 for SIGKILL.
enum class ExitCode {
  ok = 0,
  internal = 1,  // a broken invariant: a defect of Lockstep itself
  usage = 2,
  data = 3,
  checkpoint = 4,
  peer = 5,  // of a rank that notices: another one is lost or late, or does not run the same thing
  device = 6,
  memory = 7,
  non_finite = 8,
  interrupted = 130,  // SIGINT
  terminated = 143,   // SIGTERM
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// What all ranks know: each throws it with the same text, rank 0 prints it, and the job ends in order.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// What an exception means to the user: an Error as it is, std::bad_alloc as memory, others as internal.
Error error_of(const std::exception& exception);

// Throws Error(code, formatted message). The message says what is wrong, where, and what to do.
template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& message);
}

}  // namespace lockstep

// An invariant of the code. On failure: Error(internal) with the expression, file, line and the formatted
// message.
#define LOCKSTEP_CHECK(condition, ...)                                                                 \
  do {                                                                                                 \
    if (!(condition)) [[unlikely]] {                                                                   \
      ::lockstep::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                                  \
  } while (false)
