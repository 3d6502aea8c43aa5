// The scratch memory of the CPU backend.
#pragma once

#include "core/allocator.h"
#include "kernels/workspace.h"

namespace lockstep::cpu {

enum class Area {
  onednn,        // scratchpad of a primitive
  weights,       // weights in the layout that a primitive wants
  columns,       // pixels gathered for a matrix product
  result,        // a product before it is scattered, added or rounded
  source,        // operands converted to another type
  gradient,      // the same for the second operand
  widened,       // a result that is rounded to bf16 in the end
  sums,          // of each thread, to be added
  coefficients,  // of each channel
  count
};

using Workspace = ScratchAreas<Area, HostAllocator>;

}  // namespace lockstep::cpu
