// kernel_bench: every op of kernels/backend.h in the shapes of a ResNet, checked against the reference
// backend and then timed, beside what the machine copies and multiplies at best.
//
// The shapes come from the model itself, which runs once on a recorder (bench/kernels/catalogue.h). A wrong
// result ends the run with exit code 1: its time would mean nothing.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <set>

#include "apps/training/options.h"
#include "bench/kernels/catalogue.h"
#include "bench/kernels/check.h"
#include "bench/kernels/report.h"
#include "bench/kernels/timing.h"
#include "bench/output.h"

namespace {

using namespace lockstep;
using namespace lockstep::bench;

struct BenchOptions {
  Options engine;  // those that resnet_train has too
  std::int64_t input = 32;
  std::string op;
  int repetitions = 10;
  std::string csv, json;
};

std::vector<std::string> choices_of(const std::string& option) {
  for (const OptionRow& row : option_table()) {
    if (row.name == option) return row.choices;
  }
  fail(ExitCode::internal, "resnet_train has no option --{}", option);
}

// Returns whether there is work to do: not after --help or --version.
bool parse(int argc, char** argv, BenchOptions& options) {
  CLI::App app("Times every op on one device, in the shapes of a ResNet, and checks its result first");
  app.set_help_flag("--help", "Print this text");
  app.set_version_flag("--version", version_text, "Print the version, the build and its libraries");
  app.option_defaults()->always_capture_default();
  Options& engine = options.engine;
  const auto add_choice = [&](const char* name, std::string& target, const char* help) {
    app.add_option(std::string("--") + name, target, help)->check(CLI::IsMember(choices_of(name)));
  };
  add_choice("model", engine.model, "Network whose shapes are timed");
  add_choice("stem", engine.stem, "First layers: 7x7 stride 2 and pooling, or 3x3 stride 1");
  app.add_option("--channels", engine.channels, "Channels of the first stage")->check(CLI::Range(8, 1024));
  app.add_option("--input", options.input, "Height and width of the pictures (224: with 1000 classes)")
      ->check(CLI::IsMember({32, 224}));
  app.add_option("--batch-size", engine.batch_size, "Samples")->check(CLI::Range(1, 1 << 20));
  add_choice("device", engine.device, "Where the ops run");
  add_choice("dtype", engine.dtype, "Type of activations and working weights");
  app.add_option("--threads", engine.threads, "CPU threads (0: the granted cores)")
      ->check(CLI::Range(0, 4096));
  app.add_option("--op", options.op, "Only ops with this in their name");
  app.add_option("--repetitions", options.repetitions, "Measurements of each op; the median counts")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--csv", options.csv, "Write the table to this file");
  app.add_option("--json", options.json, "Write the table and what it was measured on to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    app.exit(asked);
    return false;
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::usage, "{}. Run kernel_bench --help for the options", error.what());
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && option->results().front().empty())
      fail(ExitCode::usage, "{}: its value is empty: give one, or leave the option out", option->get_name());
  }
  refuse_one_file(options.csv, options.json);
  return true;
}

std::vector<Call> chosen_calls(const BenchOptions& options, DType compute) {
  ResNetOptions network;
  network.name = options.engine.model;
  network.stem = options.engine.stem;
  network.channels = options.engine.channels;
  network.height = network.width = options.input;
  network.classes = options.input == 224 ? 1000 : 10;
  std::vector<Call> calls;
  std::set<std::string> names;
  for (Call& call : catalogue(network, options.engine.batch_size, compute)) {
    names.insert(call.op);
    if (std::string(call.op).find(options.op) != std::string::npos) calls.push_back(std::move(call));
  }
  if (calls.empty())
    fail(ExitCode::usage, "--op {}: no op has this in its name; there are {}", options.op,
         fmt::join(names, ", "));
  return calls;
}

class Machine {
 public:
  Machine(const Device& device, DType compute)
      : backend_(make_backend(device)),
        stream_(backend_->make_compute_stream()),
        neighbours_(distance_of_neighbours(compute, device.tf32)),
        peaks_(measure_peaks(*backend_, *stream_, compute)) {}

  const Peaks& peaks() const { return peaks_; }

  Row measure(const Call& call, int repetitions) const {
    const std::int64_t period = affordable_period(call);
    const Instance tested(*backend_, *stream_, call, call.samples, period);
    {
      const Instance judge(*reference_, *reference_stream_, call, period, period);
      const std::string wrong = check(tested, judge, neighbours_);
      if (!wrong.empty()) {
        fail(ExitCode::internal, "{} ({}) on device {} does not agree with the reference backend: {}",
             call.op, call.detail, backend_->name(), wrong);
      }
    }
    const double seconds = median_seconds(
        *stream_, [&] { tested.run(); }, repetitions);
    return row_of(call, period, seconds, peaks_);
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Backend> reference_ = make_reference_backend();
  std::unique_ptr<Stream> reference_stream_ = reference_->make_compute_stream();
  double neighbours_;
  Peaks peaks_;
};

void run(const BenchOptions& given) {
  BenchOptions options = given;
  const bool host = given.engine.device == "cpu" || given.engine.device == "reference";
  options.engine = resolve(given.engine, 1, 1, host ? "" : why_not_cuda(0, 1));
  const Options& engine = options.engine;
  const DType compute = compute_type(engine);
  const std::vector<Call> calls = chosen_calls(options, compute);
  write("--csv", options.csv, std::ios::app, "");
  write("--json", options.json, std::ios::app, "");

  const Machine machine(device_of(engine, 0), compute);
  nlohmann::ordered_json result = {{"device", engine.device},
                                   {"threads", engine.threads},
                                   {"dtype", engine.dtype},
                                   {"model", engine.model},
                                   {"stem", engine.stem},
                                   {"channels", engine.channels},
                                   {"input", options.input},
                                   {"batch_size", engine.batch_size},
                                   {"repetitions", options.repetitions},
                                   {"copy_peak_gb_per_s", machine.peaks().bytes_per_second * 1e-9},
                                   {"fma_peak_gflop_per_s", machine.peaks().flops_per_second * 1e-9}};
  for (const auto& [key, value] : result.items()) {
    print(fmt::format("{}: {}\n", key,
                      value.is_number_float() ? fmt::format("{:.1f}", value.get<double>()) : value.dump()));
  }
  const Table table(calls);
  print('\n' + table.head());
  std::vector<Row> rows;
  double step = 0;
  for (const Call& call : calls) {
    rows.push_back(machine.measure(call, options.repetitions));
    step += static_cast<double>(call.calls) * rows.back().seconds;
    print(table.line(rows.back()));
  }
  print(fmt::format("\ncalls x ms: {:.3f} ms for these ops in a training step\n", step * 1e3));
  result["rows"] = to_json(rows);
  write("--csv", options.csv, std::ios::trunc, to_csv(rows));
  write("--json", options.json, std::ios::trunc, result.dump(1) + '\n');
}

}  // namespace

int main(int argc, char** argv) {
  try {
    BenchOptions options;
    if (parse(argc, argv, options)) run(options);
    return static_cast<int>(ExitCode::ok);
  } catch (const std::exception& exception) {
    const Error error = error_of(exception);
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
