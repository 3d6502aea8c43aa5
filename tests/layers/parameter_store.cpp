#include "layers/parameter_store.h"

#include "catch.h"
#include "core/allocator.h"

using namespace lockstep;

namespace {

struct Fixture {
  HostAllocator memory, gradient_memory;
  ParameterStore store;
  Fixture() {
    store.add_parameter("fc.bias", Shape{10}, Layout::flat, false);
    store.add_parameter("fc.weight", Shape{10, 20}, Layout::flat, true);
    store.add_parameter("conv1.weight", Shape{4, 3, 3, 2}, Layout::ohwi, true);
    store.add_buffer("bn1.running_mean", Shape{70}, 0.0f);
    store.add_buffer("bn1.running_var", Shape{3}, 1.0f);
  }
};

}  // namespace

TEST_CASE("slices start on 256 bytes and follow each other in ready order") {
  Fixture f;
  CHECK(f.store.count() == 3);
  CHECK(f.store.offsets() == std::vector<std::int64_t>{0, 64, 320, 448});
  CHECK(f.store.flat_size() == 448);
  CHECK(f.store.parameter_elements() == 10 + 200 + 72);
  CHECK(f.store.buffers()[1].offset == 128);
  CHECK(f.store.find("conv1.weight") == 2);
  CHECK(f.store.find("conv2.weight") == -1);
}

TEST_CASE("views of one parameter and of a range share the flat memory") {
  Fixture f;
  f.store.allocate(f.memory, f.gradient_memory, DType::f32);
  const TensorView w = f.store.weight(2);
  CHECK(w.shape == Shape{4, 3, 3, 2});
  CHECK(w.layout == Layout::ohwi);
  CHECK(w.as<float>() == f.store.all_weights().as<float>() + 320);
  CHECK(f.store.working(2).data == w.data);
  CHECK_FALSE(f.store.workings(0, 2));

  const TensorView middle = f.store.gradients(1, 2);
  CHECK(middle.shape == Shape{384});
  CHECK(middle.data == f.store.gradient(1).data);
  CHECK(f.store.momenta(0, 0).numel() == 64);
  CHECK(f.store.buffer(1).as<float>() == f.store.all_buffers().as<float>() + 128);
}

TEST_CASE("memory starts as zero, padding included") {
  Fixture f;
  f.store.allocate(f.memory, f.gradient_memory, DType::bf16);
  for (const TensorView& flat : {f.store.all_weights(), f.store.all_gradients(), f.store.all_momenta()}) {
    REQUIRE(flat.numel() == 448);
    double sum = 0;
    for (std::int64_t i = 0; i < flat.numel(); ++i) sum += std::abs(flat.as<float>()[i]);
    CHECK(sum == 0.0);
  }
}

TEST_CASE("a working copy exists where the compute type is not f32") {
  Fixture f;
  f.store.allocate(f.memory, f.gradient_memory, DType::bf16);
  const TensorView working = f.store.working(1);
  CHECK(working.dtype == DType::bf16);
  CHECK(working.shape == Shape{10, 20});
  CHECK(working.as<bfloat16>() == f.store.workings(0, 2).as<bfloat16>() + 64);
}

TEST_CASE("misuse of the store is an error") {
  Fixture f;
  CHECK_THROWS_AS(f.store.add_parameter("fc.bias", Shape{1}, Layout::flat, false), Error);
  CHECK_THROWS_AS(f.store.add_buffer("bn1.running_var", Shape{1}, 0.0f), Error);
  CHECK_THROWS_AS(f.store.weight(0), Error);
  f.store.allocate(f.memory, f.gradient_memory, DType::f32);
  CHECK_THROWS_AS(f.store.add_parameter("late", Shape{1}, Layout::flat, false), Error);
  CHECK_THROWS_AS(f.store.gradients(2, 1), Error);
  CHECK_THROWS_AS(f.store.gradients(0, 3), Error);
}
