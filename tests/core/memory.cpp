// Shapes, buffers, views, arenas and the allocator behind them.
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "catch.h"
#include "core/arena.h"
#include "core/tensor.h"

using namespace lockstep;

namespace {

bool all_zero(const void* data, std::int64_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (std::int64_t i = 0; i < bytes; ++i) {
    if (p[i] != 0) return false;
  }
  return true;
}

// Counts what is alive, on top of the real allocator.
class CountingAllocator final : public Allocator {
 public:
  void* allocate(std::int64_t bytes) override {
    ++alive;
    return host.allocate(bytes);
  }
  void deallocate(void* data, std::int64_t bytes) noexcept override {
    --alive;
    host.deallocate(data, bytes);
  }
  HostAllocator host;
  int alive = 0;
};

}  // namespace

TEST_CASE("host memory is zero, aligned and writable to its last byte") {
  HostAllocator allocator;
  const std::int64_t sizes[] = {0, 1, 255, 4096, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, (5 << 20) + 12345};
  for (const std::int64_t bytes : sizes) {
    CAPTURE(bytes);
    void* data = allocator.allocate(bytes);
    REQUIRE(data != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(data) % 256 == 0);
    if (bytes >= 2 << 20) CHECK(reinterpret_cast<std::uintptr_t>(data) % (2 << 20) == 0);
    CHECK(all_zero(data, bytes));
    std::memset(data, 0xFF, static_cast<std::size_t>(bytes));
    allocator.deallocate(data, bytes);
  }
}

TEST_CASE("memory that is freed and allocated again is zero again") {
  HostAllocator allocator;
  for (const std::int64_t bytes : {std::int64_t{1000}, std::int64_t{3} << 20}) {
    void* data = allocator.allocate(bytes);
    std::memset(data, 0x5A, static_cast<std::size_t>(bytes));
    allocator.deallocate(data, bytes);
    data = allocator.allocate(bytes);
    CHECK(all_zero(data, bytes));
    allocator.deallocate(data, bytes);
  }
}

TEST_CASE("more memory than there can be is an error of kind memory, with a remedy") {
  HostAllocator allocator;
  try {
    allocator.allocate(std::int64_t{1} << 60);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::memory);
    CHECK(std::string(error.what()).find("--batch-size") != std::string::npos);
  }
}

TEST_CASE("a buffer is freed once, wherever it was moved") {
  CountingAllocator allocator;
  {
    Buffer a(allocator, 100);
    Buffer b(std::move(a));
    CHECK(allocator.alive == 1);
    Buffer c(allocator, 50);
    CHECK(allocator.alive == 2);
    c = std::move(b);
    CHECK(allocator.alive == 1);
    CHECK(c.bytes() == 100);
    Buffer& self = c;
    c = std::move(self);
    CHECK(c.data() != nullptr);
  }
  CHECK(allocator.alive == 0);
}

TEST_CASE("a shape knows its size and its text") {
  const Shape shape{32, 8, 8, 64};
  CHECK(shape.rank() == 4);
  CHECK(shape.numel() == 32 * 8 * 8 * 64);
  CHECK(shape.to_string() == "32x8x8x64");
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{}.to_string() == "scalar");
  CHECK(Shape{3, 0}.numel() == 0);
  CHECK(shape.with_first(5) == Shape{5, 8, 8, 64});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5}), Error);
  CHECK_THROWS_AS((Shape{-1}), Error);
}

TEST_CASE("a view checks its element type and can be cut to a partial batch") {
  std::vector<float> data(12);
  const TensorView view{data.data(), DType::f32, Layout::flat, {4, 3}};
  CHECK(view.bytes() == 48);
  CHECK(view.as<float>() == data.data());
  CHECK_THROWS_AS(view.as<std::int32_t>(), Error);
  CHECK(view.first(2).shape == Shape{2, 3});
  CHECK(view.first(2).data == data.data());
  CHECK_THROWS_AS(view.first(5), Error);
  CHECK_FALSE(TensorView{});
}

TEST_CASE("an arena measures, then lays out the same offsets") {
  const auto lay_out = [](Arena& arena) {
    std::vector<TensorView> views;
    views.push_back(arena.tensor(DType::f32, Layout::flat, {10}));
    const std::int64_t mark = arena.mark();
    views.push_back(arena.tensor(DType::f32, Layout::flat, {1000}));
    arena.release(mark);
    views.push_back(arena.tensor(DType::u8, Layout::flat, {300}));
    return views;
  };
  Arena measuring;
  const auto planned = lay_out(measuring);
  CHECK(measuring.measuring());
  CHECK(measuring.used() == 256 + 512);
  CHECK(measuring.peak() == 256 + 4096);
  for (const TensorView& view : planned) CHECK(view);

  HostAllocator allocator;
  Arena arena(allocator, measuring.peak());
  CHECK_FALSE(arena.measuring());
  const auto views = lay_out(arena);
  for (std::size_t i = 0; i < views.size(); ++i) {
    CHECK(static_cast<char*>(views[i].data) - static_cast<char*>(views[0].data) ==
          static_cast<char*>(planned[i].data) - static_cast<char*>(planned[0].data));
  }
  CHECK(views[1].data == views[2].data);
  CHECK_THROWS_AS(arena.tensor(DType::f32, Layout::flat, {10000}), Error);
  CHECK_THROWS_AS(arena.release(1 << 20), Error);
}
