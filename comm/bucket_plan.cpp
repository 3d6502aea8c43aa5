#include "comm/bucket_plan.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep {

std::vector<Bucket> plan_buckets(std::span<const std::int64_t> numels, std::span<const std::int64_t> offsets,
                                 std::span<const std::int64_t> caps_bytes) {
  LOCKSTEP_CHECK(offsets.size() == numels.size() + 1, "{} parameters, {} offsets", numels.size(),
                 offsets.size());
  LOCKSTEP_CHECK(!caps_bytes.empty(), "no bucket cap");
  std::vector<Bucket> buckets;
  Bucket open;  // the bucket that is being filled
  for (std::size_t i = 0; i < numels.size(); ++i) {
    open.payload_bytes += numels[i] * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t cap = caps_bytes[std::min(buckets.size(), caps_bytes.size() - 1)];
    const bool last_parameter = i + 1 == numels.size();
    if (open.payload_bytes < cap && !last_parameter) continue;
    open.last = static_cast<int>(i);
    // The slice ends where the next parameter begins, so padding belongs to the bucket before it.
    open.offset = offsets[static_cast<std::size_t>(open.first)];
    open.length = offsets[i + 1] - open.offset;
    buckets.push_back(open);
    open = Bucket{.first = static_cast<int>(i) + 1};
  }
  return buckets;
}

}  // namespace lockstep
