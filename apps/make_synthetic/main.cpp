// make_synthetic: writes the built-in data set as CIFAR-10 files, for other programs to train on or to look
// at.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "apps/training/options.h"
#include "core/error.h"
#include "data/dataset.h"

namespace {

using namespace lockstep;

int run(int argc, char** argv) {
  std::string directory;
  CLI::App app("Writes the synthetic data set in CIFAR-10's binary format into DIR/cifar-10-batches-bin.");
  app.set_help_flag("--help", "Print this text");
  app.set_version_flag("--version", version_text, "Print the version, the build and its libraries");
  app.add_option("directory", directory, "DIR")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::usage, "{}. Run make_synthetic --help", error.what());
  }
  fmt::print("{}\n", write_cifar10(make_synthetic(0), synthetic_class_names(), directory));
  return static_cast<int>(ExitCode::ok);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& exception) {
    const Error error = error_of(exception);
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
