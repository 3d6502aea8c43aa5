// The calls that kernel_bench times, with the shapes that a model really has: noted while the model itself
// runs on a recorder.
#pragma once

#include <vector>

#include "bench/kernels/call.h"
#include "models/resnet.h"

namespace lockstep::bench {

// Every op of kernels/backend.h in every distinct shape of a training step, an evaluation and a step with
// frozen batch norm, of `batch` samples: one op after the other. Ops that the model does not call (ReLU
// alone, copies, casts, pooling with the CIFAR stem) come with the shape that they would have there, and
// Call::calls = 0. Error(usage) where a batch norm would see a single value a channel.
std::vector<Call> catalogue(const ResNetOptions& network, std::int64_t batch, DType compute);

}  // namespace lockstep::bench
