// The networks against what torchvision's consist of: tests/parity/fixtures/models.txt.
#include <fstream>
#include <map>
#include <sstream>

#include "catch.h"
#include "models/resnet.h"
#include "support/harness.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Entry {
  std::string name;
  std::vector<std::int64_t> dims;  // torchvision's: convolution weights are O, I, H, W
};

struct Expected {
  std::vector<Entry> parameters, buffers;
  std::vector<std::size_t> ready;
};

std::map<std::string, Expected> read_fixture() {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/parity/fixtures/models.txt");
  std::map<std::string, Expected> models;
  Expected* current = nullptr;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind;
    if (kind == "ready") {
      for (std::size_t i = 0; words >> i;) current->ready.push_back(i);
      continue;
    }
    words >> name;
    if (kind == "model") {
      current = &models[name];
      continue;
    }
    Entry entry{name, {}};
    for (std::int64_t d = 0; words >> d;) entry.dims.push_back(d);
    (kind == "parameter" ? current->parameters : current->buffers).push_back(entry);
  }
  return models;
}

Shape stored_shape(const std::vector<std::int64_t>& dims) {
  if (dims.size() == 1) return Shape{dims[0]};
  if (dims.size() == 2) return Shape{dims[0], dims[1]};
  return Shape{dims[0], dims[2], dims[3], dims[1]};
}

ResNetOptions options(const std::string& name, const std::string& stem, int classes) {
  ResNetOptions o;
  o.name = name;
  o.stem = stem;
  o.classes = classes;
  return o;
}

}  // namespace

TEST_CASE("names, shapes and orders of all networks are torchvision's") {
  const auto models = read_fixture();
  REQUIRE(models.size() == 5);
  for (const auto& [name, expected] : models) {
    for (const std::string stem : {"imagenet", "cifar"}) {
      CAPTURE(name, stem);
      ParameterStore store;
      const ResNet network(options(name, stem, 1000), store);
      REQUIRE(store.parameters().size() == expected.parameters.size());
      REQUIRE(store.buffers().size() == expected.buffers.size());

      const std::vector<std::string> registration = network.registration_order();
      for (std::size_t i = 0; i < registration.size(); ++i) {
        Entry entry = expected.parameters[i];
        if (stem == "cifar" && entry.name == "conv1.weight") entry.dims = {64, 3, 3, 3};
        REQUIRE(registration[i] == entry.name);
        REQUIRE(store.parameter(store.find(entry.name)).shape == stored_shape(entry.dims));
      }
      for (std::size_t i = 0; i < expected.ready.size(); ++i) {
        REQUIRE(store.parameters()[i].name == expected.parameters[expected.ready[i]].name);
      }
      for (std::size_t i = 0; i < store.buffers().size(); ++i) {
        REQUIRE(store.buffers()[i].name == expected.buffers[i].name);
        REQUIRE(store.buffers()[i].shape == stored_shape(expected.buffers[i].dims));
      }
    }
  }
}

TEST_CASE("parameter counts") {
  const auto count = [](const char* name, const char* stem, int classes) {
    ParameterStore store;
    const ResNet network(options(name, stem, classes), store);
    return store.parameter_elements();
  };
  CHECK(count("resnet50", "imagenet", 1000) == 25557032);
  CHECK(count("resnet50", "cifar", 10) == 23520842);
  CHECK(count("resnet18", "imagenet", 1000) == 11689512);
}

TEST_CASE("a network with fewer channels is the same network, each number of channels divided") {
  ParameterStore wide, narrow;
  ResNetOptions o = options("resnet50", "imagenet", 10);
  const ResNet whole(o, wide);
  o.channels = 16;
  const ResNet quarter(o, narrow);
  REQUIRE(narrow.parameters().size() == wide.parameters().size());
  for (std::size_t i = 0; i < wide.parameters().size(); ++i) {
    const Parameter& p = wide.parameters()[i];
    CAPTURE(p.name);
    CHECK(narrow.parameters()[i].name == p.name);
    REQUIRE(narrow.parameters()[i].shape.rank() == p.shape.rank());
    for (int d = 0; d < p.shape.rank(); ++d)
      CHECK(narrow.parameters()[i].shape[d] == (p.shape[d] >= 64 ? p.shape[d] / 4 : p.shape[d]));
  }
  for (const std::int64_t channels : {0, 4, 12}) {
    ParameterStore store;
    o.channels = channels;
    CHECK_THROWS_AS(ResNet(o, store), Error);
  }
}

TEST_CASE("weight decay leaves out batch norm and bias, and nothing else") {
  ParameterStore store;
  const ResNet network(options("resnet50", "imagenet", 10), store);
  for (const Parameter& p : store.parameters()) {
    CAPTURE(p.name);
    CHECK(p.decay == (p.shape.rank() > 1));
  }
}

TEST_CASE("unknown names are refused with the choices") {
  ParameterStore store;
  try {
    const ResNet network(options("resnet20", "imagenet", 10), store);
    FAIL("resnet20 was accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::usage);
    CHECK(std::string(e.what()).find("resnet152") != std::string::npos);
  }
  CHECK_THROWS_AS(ResNet(options("resnet18", "tiny", 10), store), Error);
}
