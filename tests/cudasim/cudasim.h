// The simulated GPU: what tests and the doubles of other CUDA libraries see of it. Programs see NVIDIA's own
// functions.
//
// A stream is a queue that runs as late as the API allows: nothing happens before somebody waits for it, and
// then only what that wait needs. A missing wait between two streams, or a read on the host before a wait,
// meets stale or NaN data. `eager` runs every piece of work inside the call that enqueues it; both must give
// the same results.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>

#include "cudasim/simt.h"

namespace cudasim {

struct Config {
  int devices = 2;
  std::int64_t memory = std::int64_t{8} << 30;  // of each device, bytes
  bool eager = false;
  // Device memory can be touched only while a device works: the host that does crashes there (SIGSEGV).
  bool hidden = false;
  Order order = Order::forward;
  std::uint32_t seed = 1;
  std::string name = "NVIDIA_H200";  // of the devices
  int architecture = 90;             // of the devices: ten times the compute capability
  // The call of that name (all of its calls together are counted from 1) fails; 0: none does.
  std::string failing_call;
  std::int64_t failing_number = 0;
  cudaError_t failing_error = cudaErrorUnknown;
};

// Before the first CUDA call of a program its environment counts:
//   CUDASIM="devices=4 memory=1073741824 eager=1 hidden=1 order=random seed=3 name=A100
//   architecture=80 fail=cudaMemcpyAsync:7:700"
// An unknown word ends the program.
Config config();
void configure(const Config& config);  // for the calls that follow; counts calls from 1 again
class Configured {                     // for a scope
 public:
  explicit Configured(const Config& next) : before_(config()) { configure(next); }
  ~Configured() { configure(before_); }
  Configured(const Configured&) = delete;
  Configured& operator=(const Configured&) = delete;

 private:
  Config before_;
};

// What is alive of the program's: allocations, streams, events. At the exit of a program that leaves
// something, the simulator prints it and ends with code 99.
struct Alive {
  std::int64_t device_allocations = 0, device_bytes = 0, pinned_allocations = 0;
  std::int64_t streams = 0, events = 0, graphs = 0;
  bool operator==(const Alive&) const = default;
};
Alive alive();

// How often the host had to wait for a device, and how often work was enqueued: a step that must not wait
// compares.
struct Counts {
  std::int64_t host_waits = 0, launches = 0, copies = 0;
};
Counts counts();

// The last thing that a kernel did wrong (see simt.h), or an empty string. The stream's device then answers
// every call with cudaErrorLaunchFailure, as a real one does, until reset_devices().
std::string last_fault();
void reset_devices();

// For doubles of libraries that run on streams: enqueues work, in order. It may touch device memory and wait
// for other processes, but must not call CUDA.
void enqueue(cudaStream_t stream, std::function<void()> work);
// Whether [data, data + bytes) lies in one allocation of a device.
bool is_device_memory(const void* data, std::int64_t bytes);

}  // namespace cudasim
