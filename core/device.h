// Where a tensor lives and which implementation runs.
#pragma once

#include <string>

namespace lockstep {

enum class DeviceKind { reference, cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;          // CUDA ordinal
  int threads = 1;        // CPU threads that one op may use
  bool tf32 = false;      // CUDA: f32 products round their factors to TF32
  bool autotune = false;  // CUDA: convolutions take the fastest of their plans, by the clock
};

const char* name_of(DeviceKind kind);

// CUDA devices that this process sees; 0 where the build has no CUDA, the driver is missing or too old, or
// there is no GPU. why (if given) receives the reason for 0 and, behind a colon, the remedy. Error(device)
// where CUDA fails in another way: a device that is broken is not one that is missing.
int cuda_device_count(std::string* why = nullptr);

}  // namespace lockstep
