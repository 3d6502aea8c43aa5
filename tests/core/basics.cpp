// Errors, element types, hashes, traces, logs and what the host grants.
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "catch.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/host.h"
#include "core/log.h"
#include "core/thread.h"
#include "core/trace.h"

using namespace lockstep;
namespace fs = std::filesystem;

namespace {

// A directory of this process, removed with everything in it.
struct ScratchDirectory {
  fs::path path = fs::temp_directory_path() / ("lockstep-core-" + std::to_string(getpid()));
  ScratchDirectory() { fs::create_directories(path); }
  ~ScratchDirectory() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
};

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("a check evaluates once and says expression, place and message") {
  int evaluated = 0;
  LOCKSTEP_CHECK(++evaluated == 1);
  CHECK(evaluated == 1);
  try {
    LOCKSTEP_CHECK(evaluated == 7, "evaluated {} times", evaluated);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::internal);
    const std::string text = error.what();
    CHECK(text.find("evaluated == 7") != std::string::npos);
    CHECK(text.find("basics.cpp:") != std::string::npos);
    CHECK(text.find("evaluated 1 times") != std::string::npos);
  }
  CHECK_THROWS_WITH(fail(ExitCode::data, "file {} is {}", "a", 3), "file a is 3");
}

TEST_CASE("element types: sizes and names") {
  CHECK(size_of(DType::f32) == 4);
  CHECK(size_of(DType::bf16) == 2);
  CHECK(size_of(DType::f16) == 2);
  CHECK(size_of(DType::u8) == 1);
  CHECK(size_of(DType::i32) == 4);
  CHECK(std::string(name_of(DType::bf16)) == "bf16");
  CHECK(std::string(name_of(DeviceKind::reference)) == "reference");
  CHECK(std::string(name_of(DeviceKind::cuda)) == "cuda");
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN and infinity") {
  const auto bits_of = [](std::uint32_t f32) { return bfloat16(std::bit_cast<float>(f32)).bits; };
  CHECK(bits_of(0x3F800000) == 0x3F80);  // 1
  CHECK(bits_of(0x3F808000) == 0x3F80);  // a tie goes to the even neighbour below
  CHECK(bits_of(0x3F818000) == 0x3F82);  // a tie goes to the even neighbour above
  CHECK(bits_of(0x3F808001) == 0x3F81);
  CHECK(bits_of(0x7F7FFFFF) == 0x7F80);  // the largest float rounds to infinity
  CHECK(bits_of(0xFF800000) == 0xFF80);
  CHECK(std::isnan(static_cast<float>(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7F800001u)))));
  CHECK(static_cast<float>(bfloat16(-2.5f)) == -2.5f);
}

TEST_CASE("float16: all values, and known answers") {
  const auto bits_of = [](float value) { return float16(value).bits; };
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
    const double sign = bits & 0x8000 ? -1 : 1;
    const auto value = static_cast<double>(static_cast<float>(half));
    if (exponent == 31 && mantissa > 0) {
      CHECK(std::isnan(value));
      CHECK(std::isnan(static_cast<float>(float16(static_cast<float>(half)))));
      continue;
    }
    const double expected = exponent == 31  ? std::numeric_limits<double>::infinity()
                            : exponent == 0 ? std::ldexp(mantissa, -24)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
    if (value != sign * expected || std::signbit(value) != (sign < 0) ||
        bits_of(static_cast<float>(half)) != bits) {
      FAIL("bits " << bits << " are " << value << " instead of " << sign * expected);
    }
    // The middle between two neighbours goes to the even one, what lies beside it to the nearer one.
    if (exponent == 31 || sign < 0) continue;
    const double above =
        exponent == 30 && mantissa == 1023 ? 65536 : static_cast<double>(static_cast<float>([&] {
          float16 next;
          next.bits = static_cast<std::uint16_t>(bits + 1);
          return next;
        }()));
    const auto middle = static_cast<float>((value + above) / 2);
    const auto even = bits + (bits & 1);
    if (bits_of(middle) != even || bits_of(std::nextafter(middle, 0.0f)) != bits ||
        bits_of(std::nextafter(middle, 1e9f)) != bits + 1 || bits_of(-middle) != (even | 0x8000)) {
      FAIL("around " << middle);
    }
  }
  CHECK(bits_of(1) == 0x3C00);
  CHECK(bits_of(-2) == 0xC000);
  CHECK(bits_of(65504) == 0x7BFF);
  CHECK(bits_of(65520) == 0x7C00);
  CHECK(bits_of(3e38f) == 0x7C00);
  CHECK(bits_of(0x1p-14f) == 0x0400);
  CHECK(bits_of(0x1p-24f) == 0x0001);
  CHECK(bits_of(0x1p-25f) == 0);
  CHECK(bits_of(0.333251953125f) == 0x3555);
  CHECK(std::isnan(static_cast<float>(float16(std::bit_cast<float>(0x7F800001u)))));
}

TEST_CASE("checksum: known answers, in parts, and what changes it") {
  // By the formula in hash.h, worked out in Python.
  CHECK(checksum("", 0) == 0x0000000000000000u);
  CHECK(checksum("abcdefg", 7) == 0xA6082275DF6B83F5u);
  std::vector<std::uint32_t> words(1000);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * i);
  const auto sum = [&] { return checksum(words.data(), 4000); };
  const std::uint64_t whole = sum();
  CHECK(whole == 0xCE21821B81CE36E9u);
  CHECK(checksum_words(words.data(), 700, 1000) + checksum_rest(words.data(), 4000) +
            checksum_words(words.data(), 0, 700) ==
        whole);
  std::swap(words[3], words[4]);
  CHECK(sum() != whole);
  std::swap(words[3], words[4]);
  words[0] ^= 0x80000000u;
  words[1] ^= 0x80000000u;
  CHECK(sum() != whole);
  const std::uint32_t zeros[2] = {};
  CHECK(checksum(zeros, 4) != checksum(zeros, 8));
  CHECK(checksum(zeros, 5) != checksum(zeros, 8));
}

TEST_CASE("hash: known values, boundaries between texts, and every bit counts") {
  // FNV-1a of the empty string, "a" and "foobar", from the authors' test vectors.
  CHECK(Hash().hex() == "cbf29ce484222325");
  CHECK(Hash().add_bytes("a", 1).hex() == "af63dc4c8601ec8c");
  CHECK(Hash().add_bytes("foobar", 6).hex() == "85944171f73967e8");
  CHECK(Hash().add("ab").add("c").value() != Hash().add("a").add("bc").value());
  CHECK(Hash().add(1).add(2).value() != Hash().add(2).add(1).value());

  std::vector<float> data(1003, 1.0f);
  const auto hash = [&] { return Hash().add_bytes(data.data(), data.size() * sizeof(float)).value(); };
  const std::uint64_t before = hash();
  for (const std::size_t i : {0u, 1u, 8u, 500u, 1002u}) {
    data[i] = -1.0f;
    CHECK(hash() != before);
    // Two flipped signs in one lane must not cancel.
    data[(i + 8) % 1000] = -1.0f;
    CHECK(hash() != before);
    data[i] = data[(i + 8) % 1000] = 1.0f;
  }
  CHECK(hash() == before);
  std::swap(data[3] = 2.0f, data[40] = 3.0f);
  const std::uint64_t swapped = hash();
  std::swap(data[3], data[40]);
  CHECK(hash() != swapped);
}

TEST_CASE("what an exception means to the user") {
  CHECK(error_of(Error(ExitCode::data, "no file")).code() == ExitCode::data);
  CHECK(error_of(std::bad_alloc()).code() == ExitCode::memory);
  const Error other = error_of(std::runtime_error("surprise"));
  CHECK(other.code() == ExitCode::internal);
  CHECK(std::string(other.what()) == "surprise");
}

TEST_CASE("a trace is a JSON file with one event a span") {
  const ScratchDirectory scratch;
  Tracer tracer(3);
  { const Span span(&tracer, "forward \"layer1\"\n", "compute"); }
  { const Span nothing(nullptr, "untraced", "compute"); }
  start_thread("ls-a-very-long-name", [&] { const Span span(&tracer, "all_reduce", "comm"); }).join();
  const std::string path = (scratch.path / "trace.json").string();
  tracer.open(path);
  tracer.write();

  const auto json = nlohmann::json::parse(read(path));
  std::vector<nlohmann::json> spans;
  bool named = false;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "X") spans.push_back(event);
    if (event.at("name") == "thread_name") named |= event.at("args").at("name") == "ls-a-very-long-";
  }
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].at("name") == "forward \"layer1\"\n");
  CHECK(spans[1].at("cat") == "comm");
  CHECK(spans[0].at("pid") == 3);
  CHECK(spans[0].at("tid") != spans[1].at("tid"));
  CHECK(spans[1].at("dur") >= 0);
  CHECK(named);
  CHECK_THROWS_AS(tracer.open((scratch.path / "missing" / "trace.json").string()), Error);
  tracer.open("/dev/full");
  CHECK_THROWS_AS(tracer.write(), Error);
}

TEST_CASE("rank 0 logs from info, the others from warnings") {
  CHECK(make_logger(0)->should_log(spdlog::level::info));
  CHECK_FALSE(make_logger(0)->should_log(spdlog::level::debug));
  CHECK_FALSE(make_logger(1)->should_log(spdlog::level::info));
  CHECK(make_logger(1)->should_log(spdlog::level::warn));
}

TEST_CASE("cgroup quotas: version 1, version 2, and the tightest parent") {
  const ScratchDirectory scratch;
  const std::string root = scratch.path.string();
  CHECK(cgroup_cores("0::/\n", root) == 0);
  scratch.write("cpu.max", "max 100000\n");
  CHECK(cgroup_cores("0::/\n", root) == 0);
  scratch.write("job/step/cpu.max", "350000 100000\n");
  CHECK(cgroup_cores("0::/job/step\n", root) == 3.5);
  scratch.write("job/cpu.max", "200000 100000\n");
  CHECK(cgroup_cores("0::/job/step\n", root) == 2.0);
  CHECK(cgroup_cores("0::/\n", root) == 0);

  scratch.write("cpu,cpuacct/box/cpu.cfs_quota_us", "150000\n");
  scratch.write("cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cores("5:memory:/box\n4:cpu,cpuacct:/box\n", root) == 1.5);
  scratch.write("cpu/box/cpu.cfs_quota_us", "-1\n");
  scratch.write("cpu/box/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cores("4:cpu:/box\n", root) == 0);
  CHECK(cgroup_cores("4:cpuset:/box\n", root) == 0);
  CHECK(cgroup_cores("", root) == 0);
}

TEST_CASE("the host grants at least one core and no more than there are") {
  CHECK(granted_cores() >= 1);
  CHECK(granted_cores() <= static_cast<int>(std::thread::hardware_concurrency()));
}

TEST_CASE("the build id is the linker's") {
  const std::string id = build_id();
  CHECK(id.size() == 40);
  CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(std::string(version()).find('.') != std::string::npos);
}
