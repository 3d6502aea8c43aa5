#include "core/error.h"

namespace lockstep::detail {

void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  throw Error(ExitCode::internal, fmt::format("internal error at {}:{}: '{}' does not hold{}{}", file, line,
                                              expression, message.empty() ? "" : ": ", message));
}

}  // namespace lockstep::detail
