// The main function of tests that need a CUDA device: without one they do not pass, they end with code 6.
#include <fmt/format.h>

#include "core/device.h"
#include "core/error.h"
#include "test_runner.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  try {
    std::string why;
    if (cuda_device_count(&why) == 0) fail(ExitCode::device, "there is no CUDA device to test: {}", why);
    return test::run_cases(argc, argv) == 0 ? 0 : 1;  // not the number of failures, which could be 6
  } catch (const std::exception& exception) {
    const Error error = error_of(exception);
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
