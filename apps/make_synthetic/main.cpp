// make_synthetic: writes the built-in data set as CIFAR-10 files, for other programs to train on or to look
// at.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "core/error.h"
#include "data/dataset.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  std::string directory;
  std::uint64_t seed = 0;
  CLI::App app("Writes the synthetic data set in CIFAR-10's binary format into DIR/cifar-10-batches-bin.");
  app.add_option("directory", directory, "DIR")->required();
  app.add_option("--seed", seed, "The set is a function of it")->capture_default_str();
  try {
    app.parse(argc, argv);
    const std::string folder = write_cifar10(make_synthetic(seed), synthetic_class_names(), directory);
    fmt::print("{}\n", folder);
    return static_cast<int>(ExitCode::ok);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  } catch (const Error& error) {
    fmt::print(stderr, "make_synthetic: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "make_synthetic: {}\n", error.what());
    return static_cast<int>(ExitCode::internal);
  }
}
