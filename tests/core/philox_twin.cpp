// The random numbers against their Python twin: tests/parity/fixtures/philox.tensors, written by
// make_fixtures.py.
#include "catch.h"
#include "core/rng.h"
#include "support/tensor_file.h"

using namespace lockstep;

TEST_CASE("random numbers equal those of tests/parity/philox.py") {
  const auto file = test::read_tensors(LOCKSTEP_SOURCE_DIR "/tests/parity/fixtures/philox.tensors");
  constexpr std::uint64_t kSeed = 0x0123456789ABCDEF;

  const auto& words = file.at("words").integers;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto block = Philox(kSeed, RandomStream::synthetic).block(9, i / 4);
    REQUIRE(static_cast<std::int32_t>(block[i % 4]) == words[i]);
  }
  const auto& uniform = file.at("uniform").values;
  std::vector<float> actual(uniform.size());
  Philox(kSeed, RandomStream::augment).fill_uniform((std::uint64_t{1} << 40) + 5, -2.0f, 3.0f, actual);
  for (std::size_t i = 0; i < uniform.size(); ++i)
    REQUIRE(actual[i] == Approx(uniform[i]).epsilon(0).margin(5e-7));

  const auto& normal = file.at("normal").values;
  Philox(kSeed, RandomStream::init).fill_normal(7, 1.0f, 0.5f, actual);
  for (std::size_t i = 0; i < normal.size(); ++i)
    REQUIRE(actual[i] == Approx(normal[i]).epsilon(0).margin(1e-6));
}
