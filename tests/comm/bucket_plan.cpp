// The rule that assigns parameters to buckets. tests/models holds the layouts of whole networks.
#include "comm/bucket_plan.h"

#include <random>

#include "catch.h"
#include "core/error.h"

using namespace lockstep;

namespace {

std::vector<Bucket> plan(const std::vector<std::int64_t>& numels, const std::vector<std::int64_t>& caps_bytes,
                         std::int64_t alignment = 1) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t n : numels)
    offsets.push_back(offsets.back() + (n + alignment - 1) / alignment * alignment);
  return plan_buckets(numels, offsets, caps_bytes);
}

std::vector<std::int64_t> payloads(const std::vector<Bucket>& buckets) {
  std::vector<std::int64_t> bytes;
  for (const Bucket& bucket : buckets) bytes.push_back(bucket.payload_bytes);
  return bytes;
}

using Bytes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a bucket closes when its size reaches the cap; the parameter that crosses stays in") {
  CHECK(payloads(plan({10, 10, 10, 10}, {80})) == Bytes{80, 80});   // exactly the cap closes
  CHECK(payloads(plan({10, 10, 10, 10}, {81})) == Bytes{120, 40});  // one byte more does not
  CHECK(payloads(plan({10, 100, 10}, {80})) == Bytes{440, 40});     // overshoot
  CHECK(payloads(plan({100, 100, 100}, {1})) == Bytes{400, 400, 400});
  CHECK(payloads(plan({1, 2, 3}, {1000})) == Bytes{24});
}

TEST_CASE("the first cap is for the first bucket, the last one repeats") {
  CHECK(payloads(plan({5, 5, 5, 5, 5, 5, 5}, {20, 40})) == Bytes{20, 40, 40, 40});
  CHECK(payloads(plan({5, 5, 5, 5, 5, 5, 5}, {20, 40, 60})) == Bytes{20, 40, 60, 20});
}

TEST_CASE("the head of ResNet-50 with ten classes closes the first bucket after its fifth parameter") {
  // fc.bias, fc.weight, bn3.weight, bn3.bias, conv3.weight of the last block, then bn2 and conv2.
  const auto buckets = plan({10, 20480, 2048, 2048, 1048576, 512, 512, 2359296}, {1 << 20, 25 << 20});
  CHECK(payloads(buckets) == Bytes{4292648, 9441280});
  CHECK(buckets[0].last == 4);
}

TEST_CASE("padding travels, but counts neither for caps nor for payload") {
  const auto buckets = plan({10, 64, 1, 100}, {260, 4}, 64);
  REQUIRE(buckets.size() == 3);
  CHECK(payloads(buckets) == Bytes{296, 4, 400});
  CHECK(buckets[0].offset == 0);
  CHECK(buckets[0].length == 128);
  CHECK(buckets[1].offset == 128);
  CHECK(buckets[1].length == 64);
  CHECK(buckets[2].length == 128);
}

TEST_CASE("buckets are consecutive, complete and not empty, whatever the sizes and caps") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> numels(1 + random() % 60), offsets{0}, caps(1 + random() % 4);
    for (std::int64_t& n : numels) {
      n = static_cast<std::int64_t>(1 + random() % 1000);
      offsets.push_back(offsets.back() + (n + 63) / 64 * 64);
    }
    for (std::int64_t& cap : caps) cap = static_cast<std::int64_t>(1 + random() % 8000);
    int parameter = 0;
    std::int64_t end = 0, bytes = 0;
    for (const Bucket& bucket : plan_buckets(numels, offsets, caps)) {
      REQUIRE(bucket.first == parameter);
      REQUIRE(bucket.last >= bucket.first);
      REQUIRE(bucket.offset == end);
      REQUIRE(bucket.length > 0);
      parameter = bucket.last + 1;
      end = bucket.offset + bucket.length;
      bytes += bucket.payload_bytes;
    }
    REQUIRE(parameter == static_cast<int>(numels.size()));
    REQUIRE(end == offsets.back());
    std::int64_t elements = 0;
    for (const std::int64_t n : numels) elements += n;
    REQUIRE(bytes == 4 * elements);
  }
}

TEST_CASE("no parameters make no buckets; sizes that do not fit together are refused") {
  CHECK(plan({}, {100}).empty());
  CHECK_THROWS_AS(plan_buckets(Bytes{1, 2}, Bytes{0, 1}, Bytes{100}), Error);
  CHECK_THROWS_AS(plan_buckets(Bytes{1}, Bytes{0, 1}, Bytes{}), Error);
}
