// core's CUDA files, as far as only the simulated GPU shows it (tests/gpu/streams.cpp has the rest).
#include <cuda_runtime.h>

#include "catch.h"
#include "core/cuda_allocator.h"
#include "core/cuda_check.h"
#include "core/cuda_stream.h"
#include "core/device.h"
#include "core/error.h"
#include "core/tensor.h"
#include "cudasim/cudasim.h"
#include "support/check_error.h"

using namespace lockstep;
using test::check_error;

namespace {

constexpr std::int64_t kCount = 64, kBytes = kCount * 4;

cudaStream_t native(Stream& stream) {
  return static_cast<cudaStream_t>(stream.native_handle());
}

void set_kernel(float* data, float value) {
  data[threadIdx.x] = value;
}
void set(Stream& stream, Buffer& buffer, float value) {
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = kCount;
  config.stream = native(stream);
  CUDA_CHECK(cudaLaunchKernelEx(&config, set_kernel, static_cast<float*>(buffer.data()), value));
}

// Pinned, so that the copy does not wait by itself.
struct Host {
  Host() { CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&data), kBytes)); }
  ~Host() { cudaFreeHost(data); }
  void copy_from(Stream& stream, const Buffer& buffer) const {
    CUDA_CHECK(cudaMemcpyAsync(data, buffer.data(), kBytes, cudaMemcpyDeviceToHost, native(stream)));
  }
  float* data = nullptr;
};

cudasim::Config failing(const char* call, int number, cudaError_t error) {
  cudasim::Config config = cudasim::config();
  config.failing_call = call;
  config.failing_number = number;
  config.failing_error = error;
  return config;
}

}  // namespace

TEST_CASE("CudaStream: the host does not wait where another stream does") {
  CudaAllocator allocator(0);
  Buffer buffer(allocator, kBytes);
  const Host host;
  CudaStream compute(0), comm(0);
  const std::int64_t waits = cudasim::counts().host_waits;
  for (int round = 1; round <= 3; ++round) {
    set(compute, buffer, static_cast<float>(round));
    comm.wait(compute.record());
    host.copy_from(comm, buffer);
    compute.wait(comm.record());
  }
  CHECK(cudasim::counts().host_waits == waits);
  comm.synchronize();
  CHECK(host.data[kCount - 1] == 3);
}

TEST_CASE("CudaAllocator: zeros on the device that it is for, and an error that names what is free") {
  {
    CudaAllocator allocator(1);
    Buffer buffer(allocator, kBytes);
    const Host host;
    CudaStream stream(1);
    host.copy_from(stream, buffer);
    stream.synchronize();
    for (std::int64_t i = 0; i < kCount; ++i) CHECK(host.data[i] == 0);
  }
  cudasim::Config small = cudasim::config();
  small.memory = 64 << 20;
  const cudasim::Configured scope(small);
  CudaAllocator allocator(0);
  check_error(ExitCode::memory, "CUDA device 0 has no 100 MiB left (64 of 64 MiB are free)",
              [&] { allocator.allocate(100 << 20); });
}

TEST_CASE("a CUDA call that fails is an error, wherever it happens, and nothing leaks") {
  const auto use = [] {
    CudaAllocator allocator(0);
    Buffer buffer(allocator, kBytes);
    CudaStream stream(0);
    set(stream, buffer, 1);
    const Event event = stream.record();
    stream.wait(event);
    stream.submit([] {});
    event.query();
    event.synchronize();
    stream.synchronize();
  };
  for (const char* call :
       {"cudaMalloc", "cudaMemsetAsync", "cudaDeviceSynchronize", "cudaStreamCreateWithFlags",
        "cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent", "cudaLaunchHostFunc",
        "cudaEventQuery", "cudaEventSynchronize", "cudaStreamSynchronize", "cudaSetDevice"}) {
    INFO(call);
    const cudasim::Configured scope(failing(call, 1, cudaErrorUnknown));
    check_error(ExitCode::device, "failed", use);
    CHECK(cudasim::alive() == cudasim::Alive{});
  }
}

TEST_CASE("why there is no device") {
  std::string why;
  for (const cudaError_t error : {cudaErrorInsufficientDriver, cudaErrorStubLibrary, cudaErrorNoDevice}) {
    const cudasim::Configured scope(failing("cudaGetDeviceCount", 1, error));
    CHECK(cuda_device_count(&why) == 0);
    CHECK(why.find(": ") != std::string::npos);  // the reason, then the remedy
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  const cudasim::Configured scope(failing("cudaGetDeviceCount", 1, cudaErrorUnknown));
  check_error(ExitCode::device, "cudaGetDeviceCount", [&] { cuda_device_count(&why); });
}
