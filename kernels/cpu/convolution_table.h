// Which of oneDNN's implementations runs a convolution: the fastest one measured for its shape class.
#pragma once

#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/primitives.h"

namespace lockstep::cpu {

// The name of an implementation, or "" for the first one that oneDNN offers.
std::string convolution_implementation(Direction direction, const ConvShape& shape, DType type);

}  // namespace lockstep::cpu
