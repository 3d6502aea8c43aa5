// The counter-based random numbers: published values, distributions, and independence of how they are asked
// for.
#include "core/rng.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.h"

using namespace lockstep;

TEST_CASE("Philox4x32-10 equals the known answers of its authors") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  const std::uint32_t ones = 0xFFFFFFFF;
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
  // Counter and key are digits of pi.
  CHECK(philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
        Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("key and counter come from seed, stream, substream and index") {
  const Philox random(0x1122334455667788, RandomStream::augment);
  CHECK(random.block(0x00ABCDEF89ABCDEF, 0x0123456776543210) ==
        philox4x32({0x76543210, 0x01234567, 0x89ABCDEF, 0x02ABCDEF}, {0x55667788, 0x11223344}));
}

TEST_CASE("fills use the words of the blocks, in order, at any length") {
  const Philox random(42, RandomStream::init);
  std::vector<float> all(5000);
  random.fill_uniform(7, 0.0f, 1.0f, all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != to_unit(random.block(7, i / 4)[i % 4])) FAIL("element " << i);
  }
  std::vector<float> normal(5000);
  random.fill_normal(7, 1.0f, 2.0f, normal);
  for (const std::size_t length : {0u, 1u, 2u, 3u, 5u, 1023u, 1024u, 1025u, 3001u}) {
    CAPTURE(length);
    std::vector<float> part(length + 1, -99.0f);
    random.fill_uniform(7, 0.0f, 1.0f, std::span(part).first(length));
    CHECK(std::equal(part.begin(), part.end() - 1, all.begin()));
    CHECK(part[length] == -99.0f);
    random.fill_normal(7, 1.0f, 2.0f, std::span(part).first(length));
    CHECK(std::equal(part.begin(), part.end() - 1, normal.begin()));
    CHECK(part[length] == -99.0f);
  }
}

TEST_CASE("uniforms stay below their upper bound, even where rounding would reach it") {
  const Philox random(1, RandomStream::init);
  std::vector<float> values(200000);
  random.fill_uniform(0, 1.0f, 1.0f + 0x1.0p-22f, values);
  CHECK(*std::min_element(values.begin(), values.end()) == 1.0f);
  CHECK(*std::max_element(values.begin(), values.end()) < 1.0f + 0x1.0p-22f);
}

TEST_CASE("normals are Box-Muller of the words, to within rounding") {
  const Philox random(3, RandomStream::init);
  std::vector<float> values(400000);
  random.fill_normal(11, 0.0f, 1.0f, values);
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const auto words = random.block(11, i / 4);
    const double u1 = ((words[i % 4] >> 8) + 1.0) * 0x1.0p-24;
    const double u2 = (words[i % 4 + 1] >> 8) * 0x1.0p-24;
    const double radius = std::sqrt(-2 * std::log(u1)), angle = 2 * std::acos(-1.0) * u2;
    worst = std::max(worst, std::abs(values[i] - radius * std::cos(angle)));
    worst = std::max(worst, std::abs(values[i + 1] - radius * std::sin(angle)));
  }
  CHECK(worst < 1e-6);
}

TEST_CASE("normals have the moments and tails of a normal distribution") {
  const Philox random(5, RandomStream::synthetic);
  std::vector<float> values(4000000);
  random.fill_normal(0, 0.0f, 1.0f, values);
  double sum = 0, square = 0, cube = 0, fourth = 0, beyond_two = 0, correlation = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    sum += x, square += x * x, cube += x * x * x, fourth += x * x * x * x;
    if (std::abs(x) > 2) ++beyond_two;
    if (i > 0) correlation += x * values[i - 1];
  }
  const auto n = static_cast<double>(values.size());
  // Five standard errors of each statistic.
  CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::abs(square / n - 1) < 5 * std::sqrt(2 / n));
  CHECK(std::abs(cube / n) < 5 * std::sqrt(15 / n));
  CHECK(std::abs(fourth / n - 3) < 5 * std::sqrt(96 / n));
  CHECK(std::abs(beyond_two / n - 0.0455003) < 5 * std::sqrt(0.0455 * 0.9545 / n));
  CHECK(std::abs(correlation / n) < 5 / std::sqrt(n));
}

TEST_CASE("seeds, streams and substreams give different numbers") {
  const auto first = [](std::uint64_t seed, RandomStream stream, std::uint64_t substream) {
    return Philox(seed, stream).block(substream, 0);
  };
  const auto base = first(0, RandomStream::init, 0);
  CHECK(first(1, RandomStream::init, 0) != base);
  CHECK(first(std::uint64_t{1} << 32, RandomStream::init, 0) != base);
  CHECK(first(0, RandomStream::augment, 0) != base);
  CHECK(first(0, RandomStream::init, 1) != base);
  CHECK(first(0, RandomStream::init, std::uint64_t{1} << 32) != base);
}

// The exact bits: a change of the formula, of a compiler flag or of the instruction set must not go
// unnoticed, since it would change every initial weight.
TEST_CASE("the first normals of a seed have known bits") {
  std::vector<float> values(8);
  Philox(0, RandomStream::init).fill_normal(0, 0.0f, 1.0f, values);
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  CHECK(bits == std::vector<std::uint32_t>{0x3F0EBAB3, 0x3F68A767, 0x3F70A65E, 0xBF82322B, 0xBD3B3E02,
                                           0x3E543BA7, 0xBF36D1D5, 0xBF9EE862});
}
