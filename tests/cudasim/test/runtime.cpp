// The runtime's double: late streams, events, memory kinds, faults that a test orders.
#include <cuda_runtime.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "catch.h"
#include "cudasim/cudasim.h"

using namespace cudasim;

namespace {

constexpr int kCount = 1000;

void check(cudaError_t error) {
  REQUIRE(error == cudaSuccess);
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

template <class T>
struct Memory {
  explicit Memory(bool pinned = false) : host(pinned) {
    void* made = nullptr;
    check(pinned ? cudaMallocHost(&made, kCount * sizeof(T)) : cudaMalloc(&made, kCount * sizeof(T)));
    data = static_cast<T*>(made);
  }
  ~Memory() { host ? cudaFreeHost(data) : cudaFree(data); }
  bool host;
  T* data;
};

void fill_kernel(float* data, float value) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) data[i] = value;
}
cudaError_t fill(cudaStream_t stream, float* data, float value, unsigned threads = 128) {
  cudaLaunchConfig_t config = {};
  config.gridDim = (kCount + threads - 1) / threads;
  config.blockDim = threads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, fill_kernel, data, value);
}
cudaError_t read(cudaStream_t stream, float* pinned, const float* data) {
  return cudaMemcpyAsync(pinned, data, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream);
}

Config with(const std::function<void(Config&)>& change) {
  Config next = config();
  change(next);
  return next;
}

}  // namespace

TEST_CASE("cudart: nothing runs before somebody waits, unless it is eager") {
  for (const bool eager : {false, true}) {
    const Configured scope(with([&](Config& c) { c.eager = eager; }));
    const Memory<float> device, host(true);
    cudaStream_t stream = make_stream();
    check(fill(stream, device.data, 3));
    check(read(stream, host.data, device.data));
    CHECK(std::isnan(host.data[kCount - 1]) == !eager);
    check(cudaStreamSynchronize(stream));
    CHECK(host.data[kCount - 1] == 3);
    check(cudaStreamDestroy(stream));
  }
}

TEST_CASE("cudart: another stream sees the work only where it waits for the event") {
  for (const bool waits : {true, false}) {
    const Memory<float> device, host(true);
    cudaStream_t first = make_stream(), second = make_stream();
    cudaEvent_t event = make_event();
    check(fill(first, device.data, 3));
    check(cudaEventRecord(event, first));
    check(fill(first, device.data, 4));
    if (waits) check(cudaStreamWaitEvent(second, event, 0));
    check(read(second, host.data, device.data));
    CHECK(cudaEventQuery(event) == cudaErrorNotReady);
    check(cudaStreamSynchronize(second));
    CHECK((host.data[0] == 3) == waits);  // and no more than the wait needs
    CHECK((cudaEventQuery(event) == cudaSuccess) == waits);
    check(cudaEventSynchronize(event));
    check(cudaEventDestroy(event));
    check(cudaStreamDestroy(first));
    check(cudaStreamDestroy(second));
  }
}

TEST_CASE("cudart: a wait is for the record at its time, whatever becomes of the event") {
  const Memory<float> device, host(true);
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t event = make_event();
  check(fill(first, device.data, 1));
  check(cudaEventRecord(event, first));
  check(cudaStreamWaitEvent(second, event, 0));
  check(fill(first, device.data, 2));
  check(cudaEventRecord(event, first));
  check(cudaEventDestroy(event));
  check(read(second, host.data, device.data));
  check(cudaStreamSynchronize(second));
  CHECK(host.data[0] == 1);
  check(cudaStreamDestroy(first));
  check(cudaStreamDestroy(second));
}

TEST_CASE("cudart: host functions run in the order of their stream") {
  cudaStream_t stream = make_stream();
  const Memory<float> device, host(true);
  float seen = 0;
  struct Look {
    const float* from;
    float* to;
  } look{host.data, &seen};
  check(fill(stream, device.data, 5));
  check(read(stream, host.data, device.data));
  check(cudaLaunchHostFunc(
      stream, [](void* data) { *static_cast<Look*>(data)->to = *static_cast<Look*>(data)->from; }, &look));
  CHECK(seen == 0);
  check(cudaStreamSynchronize(stream));
  CHECK(seen == 5);
  check(cudaStreamDestroy(stream));
}

TEST_CASE("cudart: a copy names the kinds of memory that it has") {
  const Memory<float> device, other, pinned(true);
  std::vector<float> pageable(kCount);
  const std::size_t bytes = kCount * sizeof(float);
  const auto copy = [&](void* to, const void* from, std::size_t size, cudaMemcpyKind kind) {
    const cudaError_t error = cudaMemcpyAsync(to, from, size, kind, nullptr);
    check(cudaDeviceSynchronize());
    cudaGetLastError();
    return error;
  };
  CHECK(copy(device.data, pinned.data, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(copy(pinned.data, device.data, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(copy(other.data, device.data, bytes, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(copy(device.data, other.data, bytes, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(device.data, pageable.data(), bytes, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(copy(pinned.data, pageable.data(), bytes, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(copy(device.data + 1, other.data, bytes, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(pinned.data, 0, bytes, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("cudart: a copy of memory that is not pinned makes the host wait") {
  const Memory<float> device, pinned(true);
  std::vector<float> pageable(kCount);
  const std::int64_t before = counts().host_waits;
  check(read(nullptr, pinned.data, device.data));
  CHECK(counts().host_waits == before);
  check(read(nullptr, pageable.data(), device.data));
  CHECK(counts().host_waits == before + 1);
}

TEST_CASE("cudart: fresh memory is NaN, and there is no more than the device has") {
  const Configured scope(
      with([](Config& c) { c.memory = alive().device_bytes + 3 * kCount * sizeof(float); }));
  const Memory<float> first, host(true);
  check(read(nullptr, host.data, first.data));
  check(cudaDeviceSynchronize());
  CHECK(std::isnan(host.data[7]));
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  CHECK(free == 2 * kCount * sizeof(float));
  void* data = nullptr;
  CHECK(cudaMalloc(&data, 3 * kCount * sizeof(float)) == cudaErrorMemoryAllocation);
  cudaGetLastError();
}

TEST_CASE("cudart: the call that a test orders fails, and no other") {
  const Configured scope(with([](Config& c) {
    c.failing_call = "cudaMemsetAsync";
    c.failing_number = 2;
    c.failing_error = cudaErrorUnknown;
  }));
  const Memory<float> device;
  CHECK(cudaMemsetAsync(device.data, 0, 4, nullptr) == cudaSuccess);
  CHECK(cudaMemsetAsync(device.data, 0, 4, nullptr) == cudaErrorUnknown);
  CHECK(cudaMemsetAsync(device.data, 0, 4, nullptr) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorUnknown);
}

TEST_CASE("cudart: launches that a device refuses") {
  const Memory<float> device;
  CHECK(fill(nullptr, device.data, 1, 1024) == cudaSuccess);
  CHECK(fill(nullptr, device.data, 1, 1025) == cudaErrorInvalidConfiguration);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1, 65536);
  config.blockDim = 1;
  CHECK(cudaLaunchKernelEx(&config, fill_kernel, device.data, 0.0f) == cudaErrorInvalidConfiguration);
  cudaGetLastError();
  check(cudaDeviceSynchronize());
}

TEST_CASE("cudart: a kernel that faults loses the device") {
  const Memory<float> device;
  cudaStream_t stream = make_stream();
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 64;
  config.stream = stream;
  void (*const kernel)(float*) = [](float*) {
    if (threadIdx.x < 32) __syncthreads();
  };
  check(cudaLaunchKernelEx(&config, kernel, device.data));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  CHECK(last_fault().find("some threads have left") != std::string::npos);
  CHECK(fill(stream, device.data, 1) == cudaErrorLaunchFailure);
  reset_devices();
  cudaGetLastError();
  CHECK(fill(stream, device.data, 1) == cudaSuccess);
  check(cudaStreamDestroy(stream));
}

// On pages that a system call is asked about: the process would not survive to tell.
TEST_CASE("cudart: device memory can be hidden from the host, and devices see it all the same") {
  const Configured scope(with([](Config& c) { c.hidden = true; }));
  const Memory<float> device, host(true);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const auto readable = [&](const float* data) { return write(ends[1], data, sizeof(float)) > 0; };
  check(fill(nullptr, device.data, 3));
  check(read(nullptr, host.data, device.data));
  CHECK_FALSE(readable(device.data));
  check(cudaDeviceSynchronize());
  CHECK_FALSE(readable(device.data));
  CHECK(readable(host.data));
  CHECK(host.data[1] == 3);
  configure(with([](Config& c) { c.hidden = false; }));
  CHECK(readable(device.data));
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("cudart: several devices, each with its default stream, chosen by thread") {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  CHECK(count == 2);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  cudaGetLastError();
  check(cudaSetDevice(1));
  int other = -1;
  std::thread([&] { cudaGetDevice(&other); }).join();
  CHECK(other == 0);
  check(cudaSetDevice(0));
  const Configured scope(with([](Config& c) { c.devices = 0; }));
  count = 77;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 77);
  cudaGetLastError();
}

TEST_CASE("cudart: threads share streams") {
  const Memory<float> device, host(true);
  cudaStream_t first = make_stream(), second = make_stream();
  for (int round = 0; round < 50; ++round) {
    cudaEvent_t event = make_event();
    check(fill(first, device.data, static_cast<float>(round)));
    check(cudaEventRecord(event, first));
    check(cudaStreamWaitEvent(second, event, 0));
    check(read(second, host.data, device.data));
    std::thread waiter([&] { cudaStreamSynchronize(first); });
    check(cudaStreamSynchronize(second));
    waiter.join();
    CHECK(host.data[kCount / 2] == static_cast<float>(round));
    check(cudaEventDestroy(event));
  }
  check(cudaStreamDestroy(first));
  check(cudaStreamDestroy(second));
}
