// The engine's side of the comparison with PyTorch (tests/parity/run). Tensors come and go in files of
// tests/support/tensor_file.h.
//
//   parity_dump layers --input CASES          single layers: prints "CASE TENSOR ERROR" lines
//   parity_dump network --input I --output O  a network from the weights and batches of I: writes to O the
//   loss of
//                                             every step, and the gradients and buffers of the first one
#include <CLI/CLI.hpp>
#include <cstdio>

#include "support/layer_cases.h"
#include "support/network_runner.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Arguments {
  std::string device = "cpu", input, output, mode = "training", dtype = "f32";
  int threads = 1, steps = 1;
  ResNetOptions network;
  float learning_rate = 0;
  SgdOptions sgd;
};

const FileTensor& find(const TensorFile& file, const std::string& name) {
  const auto found = file.find(name);
  if (found == file.end()) fail(ExitCode::data, "the input has no tensor {}", name);
  return found->second;
}

FileTensor to_file(const Shape& shape, std::vector<float> values) {
  FileTensor t;
  for (int i = 0; i < shape.rank(); ++i) t.dims.push_back(shape[i]);
  t.values = std::move(values);
  return t;
}

void load(NetworkRunner& runner, const TensorFile& file) {
  ParameterStore& store = runner.store;
  for (int i = 0; i < store.count(); ++i) {
    runner.to_device(store.weight(i), find(file, "weight/" + store.parameter(i).name).values);
  }
  for (std::size_t i = 0; i < store.buffers().size(); ++i) {
    runner.to_device(store.buffer(static_cast<int>(i)),
                     find(file, "buffer/" + store.buffers()[i].name).values);
  }
  store.refresh_workings(runner.context);
}

void save_first_step(NetworkRunner& runner, TensorFile& out) {
  const ParameterStore& store = runner.store;
  for (int i = 0; i < store.count(); ++i) {
    const Parameter& p = store.parameter(i);
    out["gradient/" + p.name] = to_file(p.shape, runner.to_host(store.gradient(i)));
  }
  for (std::size_t i = 0; i < store.buffers().size(); ++i) {
    const ModelBuffer& b = store.buffers()[i];
    out["buffer/" + b.name] = to_file(b.shape, runner.to_host(store.buffer(static_cast<int>(i))));
  }
}

void run_network(const Arguments& a, const Device& device) {
  const TensorFile file = read_tensors(a.input);
  const auto batch = find(file, "labels/0").dims.at(0);
  ResNetOptions options = a.network;
  options.height = options.width = find(file, "images/0").dims.at(1);
  NetworkRunner runner(device, options, batch, a.dtype == "bf16" ? DType::bf16 : DType::f32);
  load(runner, file);
  const Mode mode = a.mode == "frozen" ? Mode::frozen : Mode::training;
  TensorFile out;
  std::vector<float> losses;
  for (int step = 0; step < a.steps; ++step) {
    const std::string number = std::to_string(step);
    losses.push_back(runner.step(find(file, "images/" + number).values,
                                 find(file, "labels/" + number).integers, mode, GradMode::overwrite));
    if (step == 0) save_first_step(runner, out);
    runner.sgd(a.learning_rate, a.sgd);
  }
  out["loss"] = to_file(Shape{a.steps}, losses);
  write_tensors(a.output, out);
}

void run_layers(const Arguments& a, const Device& device) {
  for (const LayerError& e : run_layer_cases(device, read_tensors(a.input))) {
    std::printf("%s %s %.3e\n", e.layer.c_str(), e.tensor.c_str(), e.error);
  }
}

int run(int argc, char** argv) {
  Arguments a;
  CLI::App app("The engine's side of the comparison with PyTorch");
  app.require_subcommand(1);
  CLI::App* layers = app.add_subcommand("layers");
  CLI::App* network = app.add_subcommand("network");
  for (CLI::App* command : {layers, network}) {
    command->add_option("--device", a.device)->check(CLI::IsMember({"cpu", "reference"}));
    command->add_option("--threads", a.threads);
    command->add_option("--input", a.input)->required();
  }
  network->add_option("--output", a.output)->required();
  network->add_option("--model", a.network.name);
  network->add_option("--stem", a.network.stem);
  network->add_option("--classes", a.network.classes);
  network->add_option("--mode", a.mode)->check(CLI::IsMember({"training", "frozen"}));
  network->add_option("--dtype", a.dtype)->check(CLI::IsMember({"f32", "bf16"}));
  network->add_option("--steps", a.steps);
  network->add_option("--lr", a.learning_rate);
  network->add_option("--momentum", a.sgd.momentum);
  network->add_option("--weight-decay", a.sgd.weight_decay);
  CLI11_PARSE(app, argc, argv);
  const Device device{a.device == "cpu" ? DeviceKind::cpu : DeviceKind::reference, 0, a.threads};
  if (*layers) run_layers(a, device);
  if (*network) run_network(a, device);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& e) {
    std::fprintf(stderr, "parity_dump: %s\n", e.what());
    return static_cast<int>(e.code());
  }
}
