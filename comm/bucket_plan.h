// Which parameters travel together. The rule is PyTorch's (compute_bucket_assignment_by_size): walk the
// parameters in ready order, append, add bytes, close the bucket when its size is >= the cap; the parameter
// that crosses the cap stays in. Caps: the first for the first bucket, the next for the next; the last one
// repeats.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

struct Bucket {
  int first = 0, last = 0;  // parameter indices, inclusive
  std::int64_t offset = 0;  // slice of the flat gradient buffer, in elements, padding included
  std::int64_t length = 0;
  std::int64_t payload_bytes = 0;  // f32 bytes of the parameters, padding excluded
};

// numels[i]: elements of parameter i. offsets: begin of each slice, then the end (numels.size() + 1 values).
std::vector<Bucket> plan_buckets(std::span<const std::int64_t> numels, std::span<const std::int64_t> offsets,
                                 std::span<const std::int64_t> caps_bytes);

}  // namespace lockstep
