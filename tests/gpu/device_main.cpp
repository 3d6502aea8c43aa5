// The main function of tests that need a CUDA device: without one they do not pass, they end with code 6.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif
#include <fmt/format.h>

#include "core/device.h"
#include "core/error.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  try {
    std::string why;
    if (cuda_device_count(&why) == 0) fail(ExitCode::device, "there is no CUDA device to test: {}", why);
    return Catch::Session().run(argc, argv) == 0 ? 0 : 1;  // not the number of failures, which could be 6
  } catch (const std::exception& exception) {
    const Error error = error_of(exception);
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
