// The scratch memory of one CUDA device.
#pragma once

#include "core/cuda_allocator.h"
#include "kernels/workspace.h"

namespace lockstep::cuda {

enum class Area {
  product,       // of a matrix product or convolution, before it is rounded or added
  sums,          // of each block, to be added
  padded_input,  // of a convolution, with channels of zeros
  padded_weight,
  plan,  // what a cuDNN plan asks for
  count
};

using Workspace = ScratchAreas<Area, CudaAllocator>;

}  // namespace lockstep::cuda
