#include "core/error.h"

#include <new>

namespace lockstep {

Error error_of(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return {ExitCode::memory, "out of memory: choose a smaller --batch-size or model"};
  }
  return {ExitCode::internal, exception.what()};
}

namespace detail {

void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  throw Error(ExitCode::internal, fmt::format("internal error at {}:{}: '{}' does not hold{}{}", file, line,
                                              expression, message.empty() ? "" : ": ", message));
}

}  // namespace detail
}  // namespace lockstep
