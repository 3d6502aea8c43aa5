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

// CUDA devices of this machine; 0 where the build has no CUDA, the driver is missing, or there is no GPU. why
// (if given) receives the reason for 0.
int cuda_device_count(std::string* why = nullptr);

}  // namespace lockstep
