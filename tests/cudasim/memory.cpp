// Memory of the runtime's double.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "cudasim/state.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace cudasim {
namespace {

constexpr std::int64_t kPage = 4096;
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

void hide_device_memory(const Lock& /*lock*/, bool hidden) {
  set_access_to_all(hidden ? PROT_NONE : PROT_READ | PROT_WRITE);
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

}  // namespace cudasim

using namespace cudasim;

extern "C" {

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

}  // extern "C"
