// Checkpoints: the way out and in, damage of every kind, what may resume where, retention.
#include "apps/training/checkpoint.h"

#include <filesystem>

#include "apps/training/checkpoint_directory.h"
#include "catch.h"
#include "core/log.h"
#include "support/harness.h"
#include "temporary_directory.h"

using namespace lockstep;
using test::TemporaryDirectory;

namespace {

// A network whose weights, buffers and momenta hold distinct values.
struct Net {
  explicit Net(const std::string& model = "resnet18") {
    ResNetOptions options;
    options.name = model;
    options.channels = 16;
    network = std::make_unique<ResNet>(options, store);
    store.allocate(allocator, allocator, DType::f32);
    canonical = std::make_unique<CanonicalModel>(*network, store);
  }
  void fill(float start) {
    for (const auto* tensors : {&canonical->weights, &canonical->buffers, &canonical->momenta}) {
      for (const CanonicalTensor& tensor : *tensors) {
        for (float& value : test::values(tensor.view)) value = start += 0.5f;
      }
    }
  }
  std::string checksums() {
    return checksum(harness.context, canonical->weights) + checksum(harness.context, canonical->buffers) +
           checksum(harness.context, canonical->momenta);
  }
  HostAllocator allocator;
  test::Harness harness;
  ParameterStore store;
  std::unique_ptr<ResNet> network;
  std::unique_ptr<CanonicalModel> canonical;
};

CheckpointHeader example() {
  CheckpointHeader header;
  header.run = {"resnet18", "imagenet", 16, 2, 32, 10000, 157, 7};
  header.state.epoch = 3;
  header.state.step_in_epoch = 20;
  header.state.step = 491;
  header.state.loss_sum = 1.0 / 3.0;
  header.state.loss_samples = 640;
  header.state.skipped_steps = 2;
  header.config = "lr = 0.1\n";
  return header;
}

std::string checkpoint_error(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint);
    return error.what();
  }
  return "";
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a checkpoint gives back every bit") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.ckpt");
  Net net;
  net.fill(1);
  const std::string before = net.checksums();
  write_checkpoint(path, example(), net.harness.context, *net.canonical);
  net.fill(2);
  REQUIRE(net.checksums() != before);

  const CheckpointFile file(path);
  file.load(net.harness.context, *net.canonical);
  CHECK(net.checksums() == before);
  CHECK(file.header().state.loss_sum == 1.0 / 3.0);
  CHECK(file.header().state.step == 491);
  CHECK(file.header().config == "lr = 0.1\n");
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE("files hold convolution weights as [Cout][Cin][kh][kw]") {
  Net net;
  const TensorView weight = net.store.weight(net.store.find("layer1.0.conv1.weight"));
  const Shape& s = weight.shape;
  auto* data = weight.as<float>();
  data[((5 * s[1] + 2) * s[2] + 1) * s[3] + 7] = 42.0f;  // [5][2][1][7] of [Cout][kh][kw][Cin]
  std::vector<float> out;
  to_canonical(net.harness.context, weight, out);
  CHECK(canonical_shape(weight) == std::vector<std::int64_t>{16, 16, 3, 3});
  CHECK(out[static_cast<std::size_t>(((5 * 16 + 7) * 3 + 2) * 3 + 1)] == 42.0f);
  data[((5 * s[1] + 2) * s[2] + 1) * s[3] + 7] = 0.0f;
  from_canonical(net.harness.context, out.data(), weight);
  CHECK(data[((5 * s[1] + 2) * s[2] + 1) * s[3] + 7] == 42.0f);
}

TEST_CASE("a checksum sees one bit, and not the padding") {
  Net net;
  net.fill(1);
  const std::string before = net.checksums();
  auto* bias = net.store.weight(net.store.find("fc.bias")).as<float>();
  bias[10] = 1.0f;  // behind the ten classes: padding
  CHECK(net.checksums() == before);
  bias[9] = -bias[9];
  CHECK(net.checksums() != before);
}

TEST_CASE("damage of every kind is found and named") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.ckpt");
  Net net;
  net.fill(1);
  write_checkpoint(path, example(), net.harness.context, *net.canonical);
  const std::string whole = test::read_text(path);
  const auto error_of = [&](const std::string& text) {
    test::write_text(path, text);
    const std::string message = checkpoint_error([&] { const CheckpointFile file(path); });
    CHECK(holds(message, path));
    return message;
  };
  CHECK(holds(error_of(""), "empty"));
  CHECK(holds(error_of("<html>404</html>"), "not a checkpoint"));
  CHECK(holds(error_of(whole.substr(0, 10)), "not a checkpoint"));
  CHECK(holds(error_of(whole.substr(0, 500)), "truncated"));
  CHECK(holds(error_of(whole.substr(0, whole.size() / 2)), "truncated"));
  CHECK(holds(error_of(whole.substr(0, whole.size() - 1)), "truncated"));
  CHECK(holds(error_of(whole + "x"), "too long"));
  for (const std::size_t at : {whole.size() - 3, whole.size() / 2, whole.find("\"epoch\": 3") + 9}) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    CHECK(holds(error_of(flipped), "damaged"));
  }
  CHECK(holds(checkpoint_error([] { const CheckpointFile file("/nowhere/a.ckpt"); }), "/nowhere/a.ckpt"));
}

TEST_CASE("which run may go on from which checkpoint") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.ckpt");
  Net net;
  CheckpointHeader header = example();
  const auto state_for = [&](const RunShape& now) {
    write_checkpoint(path, header, net.harness.context, *net.canonical);
    return CheckpointFile(path).state_for(now);
  };
  RunShape now = header.run;
  CHECK(state_for(now).step_in_epoch == 20);

  SECTION("another model, another stem, another number of channels") {
    now.model = "resnet50";
    CHECK(holds(checkpoint_error([&] { state_for(now); }), "resnet50"));
    now = header.run;
    now.stem = "cifar";
    CHECK(holds(checkpoint_error([&] { state_for(now); }), "cifar"));
    now = header.run;
    now.channels = 32;
    CHECK(holds(checkpoint_error([&] { state_for(now); }), "--channels 16"));
    Net other("resnet34");
    CHECK(holds(checkpoint_error([&] { CheckpointFile(path).load(other.harness.context, *other.canonical); }),
                "another model"));
  }
  SECTION("another number of ranks inside an epoch: refused, naming both") {
    now.world_size = 4;
    const std::string message = checkpoint_error([&] { state_for(now); });
    CHECK(holds(message, "ranks: 2"));
    CHECK(holds(message, "this run has 4"));
  }
  SECTION("another batch or seed inside an epoch: refused") {
    now.batch_size = 16;
    CHECK(holds(checkpoint_error([&] { state_for(now); }), "--batch-size"));
    now = header.run;
    now.seed = 8;
    CHECK(holds(checkpoint_error([&] { state_for(now); }), "--seed"));
  }
  SECTION("between two epochs the ranks may change") {
    header.state.step_in_epoch = 0;
    now.world_size = 4;
    now.steps_per_epoch = 79;
    CHECK(state_for(now).step_in_epoch == 0);
    header.state.step_in_epoch = header.run.steps_per_epoch;  // all steps done, evaluation to come
    CHECK(state_for(now).step_in_epoch == 79);
  }
}

TEST_CASE("the newest valid checkpoint is taken, and what was skipped is said") {
  const TemporaryDirectory directory;
  CHECK(newest_valid_checkpoint(directory.path()).path.empty());
  CHECK(newest_valid_checkpoint(directory.file("missing")).path.empty());

  Net net;
  CheckpointDirectory checkpoints(directory.path(), 3, make_logger(0));
  CheckpointHeader header = example();
  for (const int step : {10, 20, 30, 40}) {
    header.state.step = step;
    REQUIRE(checkpoints.save(header, net.harness.context, *net.canonical));
  }
  CHECK(checkpoints_in(directory.path()).size() == 3);  // the oldest went
  CHECK(newest_valid_checkpoint(directory.path()).path == directory.file("step-00000040.ckpt"));

  std::filesystem::resize_file(directory.file("step-00000040.ckpt"), 0);
  std::filesystem::resize_file(directory.file("step-00000030.ckpt"), 1000);
  const NewestCheckpoint newest = newest_valid_checkpoint(directory.path());
  CHECK(newest.path == directory.file("step-00000020.ckpt"));
  REQUIRE(newest.skipped.size() == 2);
  CHECK((holds(newest.skipped[0], "step-000000") && holds(newest.skipped[1], "step-000000")));
}

TEST_CASE("a run does not mix its checkpoints with those of another") {
  const TemporaryDirectory directory, other;
  const auto refused = [&](const std::string& resumed) {
    return checkpoint_error([&] { refuse_foreign_checkpoints(directory.path(), resumed); });
  };
  CHECK(refused("").empty());
  CHECK(checkpoint_error([&] { refuse_foreign_checkpoints(directory.file("missing"), ""); }).empty());
  test::write_text(directory.file("step-00000010.ckpt"), "any");
  test::write_text(other.file("step-00000010.ckpt"), "any");
  CHECK(holds(refused(""), directory.path()));
  CHECK(holds(refused(""), "--resume auto"));
  CHECK(!refused(other.file("step-00000010.ckpt")).empty());
  CHECK(refused(directory.file("step-00000010.ckpt")).empty());
  CHECK(refused(directory.file("./step-00000010.ckpt")).empty());
}

TEST_CASE("a resumed run removes what is older than its checkpoint, and nothing newer") {
  const TemporaryDirectory directory;
  Net net;
  CheckpointHeader header = example();
  const auto save = [&](CheckpointDirectory& checkpoints, int step) {
    header.state.step = step;
    REQUIRE(checkpoints.save(header, net.harness.context, *net.canonical));
  };
  {
    CheckpointDirectory earlier(directory.path(), 3, make_logger(0));
    for (const int step : {10, 20, 30}) save(earlier, step);
    CHECK(earlier.newest() == directory.file("step-00000030.ckpt"));
    const std::string refused =
        checkpoint_error([&] { CheckpointDirectory(directory.path(), 3, make_logger(0)); });
    CHECK(holds(refused, "another run"));
  }

  CheckpointDirectory resumed(directory.path(), 2, make_logger(0));
  resumed.adopt(directory.file("step-00000020.ckpt"));
  CHECK(resumed.newest() == directory.file("step-00000020.ckpt"));
  save(resumed, 25);
  const auto is_there = [&](const char* name) { return std::filesystem::exists(directory.file(name)); };
  CHECK(!is_there("step-00000010.ckpt"));
  CHECK((is_there("step-00000020.ckpt") && is_there("step-00000025.ckpt") && is_there("step-00000030.ckpt")));
  save(resumed, 27);
  CHECK(!is_there("step-00000020.ckpt"));
  CHECK(is_there("step-00000030.ckpt"));
}

TEST_CASE("the configuration is saved whole or not at all") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path(), 3, make_logger(0));
  checkpoints.save_config("lr = 1\n");
  checkpoints.save_config("lr = 2\n");
  CHECK(test::read_text(directory.file("config.toml")) == "lr = 2\n");
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE("a directory that cannot be written leaves the run and the earlier checkpoints alone") {
  const TemporaryDirectory directory;
  Net net;
  test::write_text(directory.file("in-the-way"), "a file");
  CheckpointDirectory checkpoints(directory.file("in-the-way"), 3, make_logger(0));
  CHECK(!checkpoints.save(example(), net.harness.context, *net.canonical));
  CHECK(test::read_text(directory.file("in-the-way")) == "a file");
}
