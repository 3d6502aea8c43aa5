// Memory of the picture arrays.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

// pixels.resize(bytes) for an empty vector, on huge pages where the kernel grants them: the 184 MB of
// CIFAR-10 are 45,000 page faults of 4 KiB otherwise, which cost more than reading the files.
void allocate_pixels(std::vector<std::uint8_t>& pixels, std::int64_t bytes);

}  // namespace lockstep
