// What tests see of cuDNN's double. The real library builds, checks and finalizes plans; the double stands
// before it, takes the place of the device's answers and of execution, and computes what the finalized plan
// itself says: its dimensions, strides, paddings and types are read from the plan's own JSON, never from the
// program.
#pragma once

#include <string>

namespace cudasim {

// The next `count` executions fail as on a device that cannot run the plan, and enqueue nothing.
void refuse_plans(int count);
// After `first` more executions, `count` take some milliseconds longer.
void slow_plans(int count, int first = 0);

// The properties of a GPU as cuDNN's JSON: "h200", "a100" or "rtx4090". Simulated devices are H200s.
std::string gpu_properties(const std::string& name);

}  // namespace cudasim
