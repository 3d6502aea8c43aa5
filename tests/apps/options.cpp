// The option table: parsing, the configuration file, contradictions, what is compared across ranks.
#include "apps/training/options.h"

#include <map>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "kernels/backend.h"
#include "temporary_directory.h"

using namespace lockstep;
using test::TemporaryDirectory;

namespace {

const std::vector<OptionGroup> kAllGroups = {
    OptionGroup::model,   OptionGroup::data,          OptionGroup::recipe, OptionGroup::job,
    OptionGroup::compute, OptionGroup::communication, OptionGroup::run};

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "resnet_train");
  Options options;
  const std::string text =
      parse_command_line(static_cast<int>(arguments.size()), arguments.data(), kAllGroups, "", {}, options);
  REQUIRE(text.empty());
  return options;
}

// The message of the usage error, "" if there is none.
template <class Function>
std::string usage_error(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "";
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A value of each option that is not its default.
std::string other_value(const OptionRow& row) {
  if (!row.choices.empty()) {
    const std::string usual = Options{}.*std::get<std::string Options::*>(row.field);
    return row.choices.back() == usual ? row.choices.front() : row.choices.back();
  }
  if (std::holds_alternative<double Options::*>(row.field)) return "0.375";
  if (std::holds_alternative<std::int64_t Options::*>(row.field)) return "77";
  return "some text";
}

}  // namespace

TEST_CASE("every option of the table survives the way through the configuration file") {
  std::vector<std::string> arguments;
  for (const OptionRow& row : option_table()) {
    const std::string name = row.name;
    if (name == "global-batch") continue;  // replaces batch-size; below
    if (std::holds_alternative<bool Options::*>(row.field)) {
      const bool on = Options{}.*std::get<bool Options::*>(row.field);
      arguments.push_back((on ? "--no-" : "--") + name);
    } else {
      arguments.push_back("--" + name);
      arguments.push_back(other_value(row));
    }
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  const Options options = parse(pointers);
  const std::string config = to_config(options, kAllGroups);

  const TemporaryDirectory directory;
  const std::string path = directory.file("run.toml");
  test::write_text(path, config);
  const Options loaded = parse({"--config", path.c_str()});
  CHECK(to_config(loaded, kAllGroups) == config);
  CHECK(verified_items(loaded) == verified_items(options));
  // Nothing was left at its default, so nothing can have been dropped on the way.
  const Options defaults;
  for (const OptionRow& row : option_table()) {
    if (std::string(row.name) == "global-batch") continue;
    INFO(row.name);
    CHECK(std::visit([&](auto field) { return loaded.*field != defaults.*field; }, row.field));
  }
}

TEST_CASE("the defaults survive too, and a global batch stays one") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.toml");
  const Options defaults = resolve(parse({}), 2, 2, "");
  test::write_text(path, to_config(defaults, kAllGroups));
  CHECK(to_config(parse({"--config", path.c_str()}), kAllGroups) == to_config(defaults, kAllGroups));

  const Options global = resolve(parse({"--global-batch", "96"}), 2, 2, "");
  CHECK(global.batch_size == 48);
  test::write_text(path, to_config(global, kAllGroups));
  CHECK(resolve(parse({"--config", path.c_str()}), 4, 4, "").batch_size == 24);
}

TEST_CASE("a path survives, whatever is in it") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.toml");
  const std::string name = GENERATE("C:\\new\\table", "it's", "a \"quoted\" one", "a = [b]");
  Options options;
  options.metrics = name;
  test::write_text(path, to_config(options, kAllGroups));
  CHECK(parse({"--config", path.c_str()}).metrics == name);
}

TEST_CASE("options of one program: their range, choices and units, and what is compared across ranks") {
  std::int64_t steps = 20, bytes = 8;
  std::string json, way = "ring";
  const std::vector<ExtraOption> extra{{"steps", "", &steps, 1},
                                       {"json", "", &json},
                                       {"bytes", "", &bytes, 4, 1 << 30, {}, true},
                                       {"way", "", &way, 0, 0, {"ring", "tree"}}};
  const auto parse_one = [&](const char* option, const char* value) {
    const char* arguments[] = {"a_bench", option, value, "--json", "out.json"};
    Options options;
    parse_command_line(5, arguments, {OptionGroup::job}, "", extra, options);
  };
  CHECK(holds(usage_error([&] { parse_one("--steps", "0"); }), "--steps 0: out of range"));
  parse_one("--steps", "7");
  CHECK(holds(usage_error([&] { parse_one("--bytes", "2"); }), "--bytes 2: out of range"));
  for (const auto& [text, value] : std::vector<std::pair<const char*, std::int64_t>>{
           {"100", 100}, {"64K", 64 << 10}, {"64KiB", 64 << 10}, {"16m", 16 << 20}, {"1G", 1 << 30}}) {
    parse_one("--bytes", text);
    CHECK(bytes == value);
  }
  CHECK(!usage_error([&] { parse_one("--bytes", "3 apples"); }).empty());
  bytes = 4;
  CHECK(holds(usage_error([&] { parse_one("--way", "star"); }),
              "--way star: not known; choose one of ring, tree"));
  parse_one("--way", "tree");
  CHECK(holds(usage_error([&] { parse_one("--bucket-cap-mb", "5"); }), "--bucket-cap-mb"));
  CHECK(verified_items(extra) == Items{{"--steps", "7"}, {"--bytes", "4"}, {"--way", "tree"}});
}

TEST_CASE("the device of a rank: on a host each has a CUDA device of its own") {
  Options options;
  options.threads = 3;
  options.device = "cpu";
  CHECK(device_of(options, 5).kind == DeviceKind::cpu);
  CHECK(device_of(options, 5).threads == 3);
  options.device = "reference";
  CHECK(device_of(options, 5).kind == DeviceKind::reference);
  options.device = "cuda";
  for (const int rank : {0, 1, 7}) {
    const Device device = device_of(options, rank);
    CHECK(device.kind == DeviceKind::cuda);
    CHECK(device.index == rank);
  }
  CHECK_FALSE(device_of(options, 0).tf32);
  options.dtype = "tf32";
  CHECK(device_of(options, 0).tf32);
}

TEST_CASE("auto is a CUDA device where every rank can have one, else the CPU") {
  const std::string cpu = has_cpu_backend() ? "cpu" : "reference";
  CHECK(resolve(parse({}), 2, 2, "").device == "cuda");
  CHECK(resolve(parse({}), 2, 2, "no driver").device == cpu);
  CHECK(resolve(parse({"--device", "cpu"}), 1, 1, "").device == "cpu");
  CHECK(resolve(parse({"--device", "cuda"}), 1, 1, "no driver").device == "cuda");
  CHECK(holds(usage_error([] { resolve(parse({"--cuda-graph"}), 1, 1, "no driver"); }), "--device " + cpu));
}

TEST_CASE("a rank without a CUDA device knows why") {
  std::string why;
  const int devices = cuda_device_count(&why);
  CHECK(why_not_cuda(0, devices + 1000).find(devices == 0 ? why : "ranks run on this host") !=
        std::string::npos);
}

TEST_CASE("the command line wins over the configuration file") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.toml");
  test::write_text(path, "lr = 0.25\nepochs = 9\n");
  const Options options = parse({"--config", path.c_str(), "--lr", "0.5"});
  CHECK(options.lr == 0.5);
  CHECK(options.epochs == 9);
}

TEST_CASE("what the parser does not take is a usage error that names it") {
  CHECK(holds(usage_error([] { parse({"--bogus"}); }), "--bogus"));
  CHECK(holds(usage_error([] { parse({"--lr", "fast"}); }), "--lr"));
  CHECK(holds(usage_error([] { parse({"--lr", "-1"}); }), "--lr -1: out of range"));
  CHECK(holds(usage_error([] { parse({"--epochs", "0"}); }), "--epochs 0: out of range"));
  CHECK(holds(usage_error([] { parse({"--keep-checkpoints", "4294967296"}); }), "out of range"));
  CHECK(holds(usage_error([] { parse({"--model", "resnet19"}); }), "resnet18, resnet34, resnet50"));
  CHECK(holds(usage_error([] { parse({"--config", "/nowhere/x.toml"}); }), "/nowhere/x.toml"));
  CHECK(holds(usage_error([] { parse({"--momentum", "nan"}); }), "--momentum"));

  const TemporaryDirectory directory;
  const std::string path = directory.file("run.toml");
  test::write_text(path, "learning-rate = 0.25\n");
  CHECK(holds(usage_error([&] { parse({"--config", path.c_str()}); }), "learning-rate"));
}

TEST_CASE("options that contradict each other are refused") {
  const auto resolved = [](std::vector<const char*> arguments) {
    return usage_error([&] { resolve(parse(arguments), 2, 2, ""); });
  };
  CHECK(holds(resolved({"--batch-size", "32", "--global-batch", "32"}), "--global-batch"));
  CHECK(resolved({"--batch-size", "16", "--global-batch", "32"}).empty());
  CHECK(holds(resolved({"--global-batch", "33"}), "multiple of 2"));
  CHECK(holds(resolved({"--nesterov", "--momentum", "0"}), "--nesterov"));
  CHECK(holds(resolved({"--epochs", "2", "--warmup-epochs", "3"}), "--warmup-epochs"));
  CHECK(holds(resolved({"--resume", "auto"}), "--checkpoint-dir"));
  CHECK(holds(resolved({"--checkpoint-interval", "5"}), "--checkpoint-dir"));
  CHECK(holds(resolved({"--evaluate-only"}), "--resume"));
}

TEST_CASE("a type that the device does not compute in is refused, with one that it has") {
  const auto resolved = [](const char* device, const char* dtype) {
    return usage_error([&] { resolve(parse({"--device", device, "--dtype", dtype}), 1, 1, ""); });
  };
  CHECK(holds(resolved("cpu", "tf32"), "--device cpu: use --dtype fp32, or --device cuda"));
  CHECK(holds(resolved("reference", "tf32"), "--device reference: use --dtype fp32"));
  CHECK(holds(resolved("cpu", "fp16"), "use --dtype bf16, or --device cuda"));
  CHECK(resolved("reference", "fp16").empty());
  for (const char* dtype : {"fp32", "bf16"}) {
    for (const char* device : {"cpu", "reference", "cuda"}) CHECK(resolved(device, dtype).empty());
  }
  for (const char* dtype : {"tf32", "fp16"}) CHECK(resolved("cuda", dtype).empty());
  CHECK(holds(usage_error([] { parse({"--dtype", "fp8"}); }), "fp32, tf32, bf16, fp16"));
}

TEST_CASE("a way to reduce that is not the device's is refused") {
  const auto resolved = [](const char* device, const char* way) {
    return usage_error([&] { resolve(parse({"--device", device, "--allreduce", way}), 2, 2, ""); });
  };
  for (const char* device : {"cpu", "reference", "cuda"}) {
    CHECK(resolved(device, "auto").empty());
    CHECK(resolved(device, "nccl").empty() == (std::string(device) == "cuda"));
    for (const char* way : {"ring", "tree", "doubling", "shm", "mpi"})
      CHECK(resolved(device, way).empty() == (std::string(device) != "cuda"));
  }
  CHECK(holds(resolved("cuda", "ring"), "--allreduce ring does not go with --device cuda: GPUs use nccl"));
  CHECK(holds(usage_error([] { parse({"--allreduce", "star"}); }), "auto, ring, tree, doubling"));
}

TEST_CASE("threads are the granted cores shared by the ranks of the host, and at least one") {
  CHECK(resolve(parse({}), 1, 1, "").threads >= 1);
  CHECK(resolve(parse({}), 4096, 4096, "").threads == 1);
  CHECK(resolve(parse({"--threads", "3"}), 2, 2, "").threads == 3);
}

TEST_CASE("everything but paths is compared across ranks") {
  std::map<std::string, std::string> items;
  for (const auto& [key, value] : verified_items(Options{})) items[key] = value;
  std::set<std::string> paths;
  for (const OptionRow& row : option_table()) {
    const std::string name = std::string("--") + row.name;
    if (items.count(name) == 0) paths.insert(name);
  }
  CHECK(paths ==
        std::set<std::string>{"--data", "--checkpoint-dir", "--metrics", "--dump-indices", "--trace"});
}
