// The bucket layouts that PyTorch's reducer arrives at after its first iteration (its rebuilt buckets), for
// the networks and class counts for which they were recorded from PyTorch. Lockstep has them from the first
// step.
#include "apps/training/engine.h"
#include "catch.h"
#include "comm/bucket_plan.h"
#include "models/resnet.h"

using namespace lockstep;

namespace {

struct Golden {
  const char* stem;
  int classes;
  std::vector<std::int64_t> bytes;
  std::vector<int> tensors;
};

}  // namespace

TEST_CASE("bucket layouts of ResNet-50 equal PyTorch's") {
  const Golden golden = GENERATE(
      Golden{"imagenet", 1000, {8196000, 31502336, 26255360, 26550272, 9724160}, {2, 15, 12, 51, 81}},
      Golden{"cifar", 10, {4292648, 27291648, 26255360, 26550272, 9693440}, {5, 12, 12, 51, 81}});
  CAPTURE(golden.stem);
  ResNetOptions options;
  options.stem = golden.stem;
  options.classes = golden.classes;
  ParameterStore store;
  const ResNet network(options, store);
  std::vector<std::int64_t> numels;
  for (const Parameter& p : store.parameters()) numels.push_back(p.numel());

  const std::vector<Bucket> buckets = plan_buckets(numels, store.offsets(), bucket_caps(Options{}, 2));
  REQUIRE(buckets.size() == golden.bytes.size());
  int next = 0;
  std::int64_t offset = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    CAPTURE(b);
    CHECK(buckets[b].payload_bytes == golden.bytes[b]);
    CHECK(buckets[b].last - buckets[b].first + 1 == golden.tensors[b]);
    CHECK(buckets[b].first == next);
    CHECK(buckets[b].offset == offset);
    next = buckets[b].last + 1;
    offset += buckets[b].length;
  }
  CHECK(next == store.count());
  CHECK(offset == store.flat_size());
}
