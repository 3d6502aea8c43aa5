// Memory, devices and errors of the runtime's double.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <utility>

#include "cudasim/state.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace cudasim {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr int kLeak = 99;

[[noreturn]] void bad_environment(const std::string& word) {
  std::fprintf(stderr,
               "CUDASIM: \"%s\" is not one of devices= memory= eager= hidden= order= seed= name= "
               "architecture= fail=CALL:NUMBER:ERROR\n",
               word.c_str());
  std::_Exit(2);
}

Order order_of(const std::string& name) {
  if (name == "forward") return Order::forward;
  if (name == "reversed") return Order::reversed;
  if (name == "random") return Order::random;
  bad_environment("order=" + name);
}

void read_failure(const std::string& value, Config& config) {
  const std::size_t first = value.find(':'), second = value.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) bad_environment("fail=" + value);
  config.failing_call = value.substr(0, first);
  config.failing_number = std::atoll(value.c_str() + first + 1);
  config.failing_error = static_cast<cudaError_t>(std::atoi(value.c_str() + second + 1));
}

Config config_of_environment() {
  Config config;
  const char* text = std::getenv("CUDASIM");
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) bad_environment(word);
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "devices")
      config.devices = std::atoi(value.c_str());
    else if (name == "memory")
      config.memory = std::atoll(value.c_str());
    else if (name == "eager")
      config.eager = value == "1";
    else if (name == "hidden")
      config.hidden = value == "1";
    else if (name == "order")
      config.order = order_of(value);
    else if (name == "seed")
      config.seed = static_cast<std::uint32_t>(std::atoll(value.c_str()));
    else if (name == "name")
      config.name = value;
    else if (name == "architecture")
      config.architecture = std::atoi(value.c_str());
    else if (name == "fail")
      read_failure(value, config);
    else
      bad_environment(word);
  }
  return config;
}

void report_leaks() {
  const Alive left = alive();
  if (left == Alive{}) return;
  std::fprintf(stderr,
               "cudasim: at exit %lld device allocations (%lld bytes), %lld pinned ones, %lld streams, %lld "
               "graphs and "
               "%lld events are alive\n",
               static_cast<long long>(left.device_allocations), static_cast<long long>(left.device_bytes),
               static_cast<long long>(left.pinned_allocations), static_cast<long long>(left.streams),
               static_cast<long long>(left.graphs), static_cast<long long>(left.events));
  std::fflush(nullptr);
  std::_Exit(kLeak);
}

// Whole pages, so that they can be hidden. NaN in every floating-point type.
char* allocate(std::int64_t bytes, int device) {
  const std::int64_t mapped = std::max<std::int64_t>(1, (bytes + kPage - 1) / kPage) * kPage;
  void* made = mmap(nullptr, static_cast<std::size_t>(mapped), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) throw std::bad_alloc();
  auto* data = static_cast<char*>(made);
  std::memset(data, 0xff, static_cast<std::size_t>(mapped));
#ifdef __SANITIZE_ADDRESS__
  ASAN_POISON_MEMORY_REGION(data + bytes, static_cast<std::size_t>(mapped - bytes));
#endif
  state().allocations[data] = {bytes, mapped, device};
  return data;
}

void release(std::map<const char*, Allocation>::iterator at) {
  auto* data = const_cast<char*>(at->first);
  const auto mapped = static_cast<std::size_t>(at->second.mapped);
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(data, mapped);
#endif
  munmap(data, mapped);
  state().allocations.erase(at);
}

void set_access(const char* data, const Allocation& allocation, int access) {
  if (allocation.device >= 0)
    mprotect(const_cast<char*>(data), static_cast<std::size_t>(allocation.mapped), access);
}
void set_access_to_all(int access) {
  for (const auto& [data, allocation] : state().allocations) set_access(data, allocation, access);
}

bool on_device(const void* data, std::size_t bytes) {
  const Allocation* found = find_allocation(data, static_cast<std::int64_t>(bytes));
  return found != nullptr && found->device >= 0;
}

// Host memory that the driver does not know is copied through a buffer of the driver's: the call has read, or
// written, all of it when it returns.
bool is_pageable(const void* host, std::size_t bytes) {
  return find_allocation(host, static_cast<std::int64_t>(bytes)) == nullptr;
}

}  // namespace

State& state() {
  static State& shared = []() -> State& {
    static State* made = new State;  // outlives every other static object
    made->config = config_of_environment();
    std::atexit(report_leaks);
    return *made;
  }();
  return shared;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}
cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}
cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

cudaError_t entry(const Lock& /*lock*/, const char* call) {
  const Config& config = state().config;
  if (++state().calls[call] == config.failing_number && config.failing_call == call)
    return config.failing_error;
  return state().sticky;
}

void begin_work(const Lock& /*lock*/) {
  if (state().working++ == 0 && state().config.hidden) set_access_to_all(PROT_READ | PROT_WRITE);
}
void end_work(const Lock& /*lock*/) {
  if (--state().working == 0 && state().config.hidden) set_access_to_all(PROT_NONE);
}

const Allocation* find_allocation(const void* data, std::int64_t bytes) {
  const auto* begin = static_cast<const char*>(data);
  auto next = state().allocations.upper_bound(begin);
  if (next == state().allocations.begin()) return nullptr;
  --next;
  return begin + bytes <= next->first + next->second.bytes ? &next->second : nullptr;
}

bool is_device_memory(const void* data, std::int64_t bytes) {
  const Lock lock(state().mutex);
  return on_device(data, static_cast<std::size_t>(bytes));
}

Config config() {
  const Lock lock(state().mutex);
  return state().config;
}

void configure(const Config& next) {
  const Lock lock(state().mutex);
  if (next.hidden != state().config.hidden)
    set_access_to_all(next.hidden ? PROT_NONE : PROT_READ | PROT_WRITE);
  state().config = next;
  state().calls.clear();
}

Alive alive() {
  const Lock lock(state().mutex);
  Alive result;
  for (const auto& [data, allocation] : state().allocations) {
    if (allocation.device < 0) {
      ++result.pinned_allocations;
    } else {
      ++result.device_allocations;
      result.device_bytes += allocation.bytes;
    }
  }
  result.streams = static_cast<std::int64_t>(state().streams.size());
  result.events = state().events;
  result.graphs = state().graphs;
  return result;
}

Counts counts() {
  const Lock lock(state().mutex);
  return state().counts;
}

std::string last_fault() {
  const Lock lock(state().mutex);
  return state().fault;
}

void reset_devices() {
  const Lock lock(state().mutex);
  state().fault.clear();
  state().sticky = cudaSuccess;
}

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaGetDeviceCount")) return answer(error);
  if (state().config.devices == 0) return answer(cudaErrorNoDevice);
  *count = state().config.devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaSetDevice")) return answer(error);
  if (device < 0 || device >= state().config.devices) return answer(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

// An H200, unless the configuration names another. The UUID holds the number of the device.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaGetDeviceProperties")) return answer(error);
  if (device < 0 || device >= state().config.devices) return answer(cudaErrorInvalidDevice);
  *properties = {};
  state().config.name.copy(properties->name, sizeof properties->name - 1);
  properties->uuid.bytes[15] = static_cast<char>(device);
  properties->major = state().config.architecture / 10;
  properties->minor = state().config.architecture % 10;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = static_cast<std::size_t>(state().config.memory);
  return cudaSuccess;
}

// Of those that the project asks for; clocks as in cudnn/h200.json.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Lock lock(state().mutex);
  if (device < 0 || device >= state().config.devices) return answer(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrClockRate:
      *value = 1980000;
      return cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      *value = 3201000;
      return cudaSuccess;
    default:
      return answer(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = state().config.devices > 0 ? CUDART_VERSION : 0;
  return cudaSuccess;
}

// No two devices reach each other, as in a desktop computer.
cudaError_t cudaDeviceCanAccessPeer(int* can, int /*device*/, int /*peer*/) {
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaMalloc")) return answer(error);
  if (const cudaError_t error = refuse_in_capture(lock)) return answer(error);
  std::int64_t& used = state().used[current_device()];
  const auto wanted = static_cast<std::int64_t>(bytes);
  if (wanted > state().config.memory - used) return answer(cudaErrorMemoryAllocation);
  used += wanted;
  char* made = allocate(wanted, current_device());
  if (state().config.hidden && state().working == 0) set_access(made, state().allocations[made], PROT_NONE);
  *data = made;
  return cudaSuccess;
}

// Waits for the device, as the real one.
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  Lock lock(state().mutex);
  if (const cudaError_t error = refuse_in_capture(lock)) return answer(error);
  const auto found = state().allocations.find(static_cast<char*>(data));
  if (found == state().allocations.end() || found->second.device < 0) return answer(cudaErrorInvalidValue);
  ++state().counts.host_waits;
  drain_device(lock, found->second.device);
  state().used[found->second.device] -= found->second.bytes;
  release(found);
  return answer(state().sticky);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(state().mutex);
  *total = static_cast<std::size_t>(state().config.memory);
  *free = static_cast<std::size_t>(state().config.memory - state().used[current_device()]);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaMallocHost")) return answer(error);
  if (const cudaError_t error = refuse_in_capture(lock)) return answer(error);
  *data = allocate(static_cast<std::int64_t>(bytes), -1);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  const Lock lock(state().mutex);
  const auto found = state().allocations.find(static_cast<char*>(data));
  if (found == state().allocations.end() || found->second.device >= 0) return answer(cudaErrorInvalidValue);
  release(found);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaMemcpyAsync")) return answer(error);
  const bool to_device = on_device(to, bytes), from_device = on_device(from, bytes);
  const bool fits = kind == cudaMemcpyHostToDevice     ? to_device && !from_device
                    : kind == cudaMemcpyDeviceToHost   ? !to_device && from_device
                    : kind == cudaMemcpyDeviceToDevice ? to_device && from_device
                                                       : false;
  if (!fits) return answer(cudaErrorInvalidValue);
  ++state().counts.copies;
  CUstream_st& on = resolve(stream);
  const bool pageable = (kind == cudaMemcpyHostToDevice && is_pageable(from, bytes)) ||
                        (kind == cudaMemcpyDeviceToHost && is_pageable(to, bytes));
  if (pageable) {
    if (const cudaError_t error = refuse_in_capture(lock, on)) return answer(error);
  }
  push(lock, on, {.run = [=] { std::memcpy(to, from, bytes); }, .waits_for = nullptr, .completes = nullptr});
  if (pageable) {
    ++state().counts.host_waits;
    drain(lock, on);
  }
  return answer(state().sticky);
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaMemsetAsync")) return answer(error);
  if (!on_device(data, bytes)) return answer(cudaErrorInvalidValue);
  push(lock, resolve(stream),
       {.run = [=] { std::memset(data, value, bytes); }, .waits_for = nullptr, .completes = nullptr});
  return cudaSuccess;
}

// On the default stream, and like a launch: the host does not wait.
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  return cudaMemsetAsync(data, value, bytes, nullptr);
}

cudaError_t cudaGetLastError() {
  return std::exchange(last_error(), cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return last_error();
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "an error of the simulated device";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}

}  // extern "C"
