// The convolutions of all ResNets, for tests of what a library offers for them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace lockstep::test {

// Every distinct convolution of ResNet-18, 34, 50, 101 and 152 (models/resnet.h) on square images of `size`
// pixels, in the order in which they run.
std::vector<ConvShape> resnet_convolutions(bool imagenet_stem, std::int64_t batch, std::int64_t size);

}  // namespace lockstep::test
