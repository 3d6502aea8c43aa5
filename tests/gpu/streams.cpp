// core's CUDA files on a device: streams, events, memory, and how errors are told.
#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>

#include "catch.h"
#include "core/cuda_allocator.h"
#include "core/cuda_check.h"
#include "core/cuda_stream.h"
#include "core/error.h"
#include "core/tensor.h"
#include "support/check_error.h"

using namespace lockstep;
using test::check_error;

namespace {

constexpr std::int64_t kBytes = 4096;

cudaStream_t native(Stream& stream) {
  return static_cast<cudaStream_t>(stream.native_handle());
}

// A buffer on the device, and pinned memory, so that the copy to it does not wait by itself.
struct Memory {
  void set(Stream& stream, int byte) const {
    CUDA_CHECK(cudaMemsetAsync(device.data(), byte, kBytes, native(stream)));
  }
  void read(Stream& stream) const {
    CUDA_CHECK(cudaMemcpyAsync(host.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, native(stream)));
  }
  int byte(std::int64_t i) const { return static_cast<const unsigned char*>(host.data())[i]; }

  CudaAllocator allocator{0};
  PinnedAllocator pinned;
  Buffer device{allocator, kBytes}, host{pinned, kBytes};
};

}  // namespace

TEST_CASE("CudaStream: another stream waits for an event on the device") {
  const Memory memory;
  CudaStream compute(0), comm(0, CudaStream::Priority::high);
  for (int round = 1; round <= 3; ++round) {
    memory.set(compute, round);
    comm.wait(compute.record());
    memory.read(comm);
    compute.wait(comm.record());
  }
  comm.synchronize();
  CHECK(memory.byte(0) == 3);
  CHECK(memory.byte(kBytes - 1) == 3);
}

TEST_CASE("CudaStream: an event tells when its work is done, and outlives its stream") {
  std::atomic<bool> open = false;
  auto stream = std::make_unique<CudaStream>(0);
  stream->submit([&] { open.wait(false); });
  const Event event = stream->record();
  CHECK_FALSE(event.query());
  open = true;
  open.notify_all();
  event.synchronize();
  CHECK(event.query());
  stream.reset();
  CHECK(event.query());
}

TEST_CASE("CudaStream: host tasks take their turn, and an event of the host is waited for in the stream") {
  CudaStream stream(0);
  WorkerStream worker("ls-test");
  int order = 0, first = 0, second = 0;
  stream.submit([&] { first = ++order; });
  stream.submit([&] { second = ++order; });
  stream.wait(Event());
  worker.submit([] {});
  stream.wait(worker.record());
  stream.synchronize();
  CHECK(first == 1);
  CHECK(second == 2);
}

TEST_CASE("CudaStream: what a host task throws reaches whoever waits, and later tasks are dropped") {
  bool dropped = true;
  CudaStream stream(0);
  stream.submit([] { fail(ExitCode::data, "a task failed"); });
  stream.submit([&] { dropped = false; });
  const Event event = stream.record();
  check_error(ExitCode::data, "a task failed", [&] { event.synchronize(); });
  check_error(ExitCode::data, "a task failed", [&] { stream.synchronize(); });
  CHECK(dropped);
}

TEST_CASE("CudaAllocator: zeros, and an error that names what is free") {
  const Memory memory;
  CudaStream stream(0);
  memory.read(stream);
  stream.synchronize();
  for (std::int64_t i = 0; i < kBytes; ++i) CHECK(memory.byte(i) == 0);
  CudaAllocator allocator(0);
  check_error(ExitCode::memory, "CUDA device 0 has no ", [&] { allocator.allocate(std::int64_t{1} << 50); });
}

TEST_CASE("CUDA_CHECK: the expression, the place, the text and the remedy") {
  check_error(ExitCode::device, "cudaSetDevice(1000) failed", [] { CUDA_CHECK(cudaSetDevice(1000)); });
  check_error(ExitCode::device, "streams.cpp:", [] { CUDA_CHECK(cudaSetDevice(1000)); });
  check_error(ExitCode::memory, "smaller --batch-size", [] { CUDA_CHECK(cudaErrorMemoryAllocation); });
  CHECK(cudaGetLastError() == cudaSuccess);
}
