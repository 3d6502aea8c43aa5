// Captured graphs: the double's rules, and CudaStream's recordings.
#include <cuda_runtime.h>

#include <cmath>
#include <memory>
#include <set>

#include "catch.h"
#include "core/cuda_allocator.h"
#include "core/cuda_check.h"
#include "core/cuda_stream.h"
#include "core/error.h"
#include "core/tensor.h"
#include "cudasim/cudasim.h"

using namespace lockstep;

namespace {

cudaStream_t native(Stream& stream) {
  return static_cast<cudaStream_t>(stream.native_handle());
}

// *to = *from + value
void add_kernel(const float* from, float* to, float value) {
  *to = *from + value;
}
void add(Stream& stream, const float* from, float* to, float value) {
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 1;
  config.stream = native(stream);
  CUDA_CHECK(cudaLaunchKernelEx(&config, add_kernel, from, to, value));
}

struct Rig {
  CudaAllocator allocator{0};
  PinnedAllocator pinned;
  Buffer device{allocator, 16}, host{pinned, 16};
  CudaStream compute{0}, comm{0, CudaStream::Priority::high};

  float* at(int i) const { return static_cast<float*>(device.data()) + i; }
  float read(int i) {
    CUDA_CHECK(cudaMemcpyAsync(host.data(), at(i), 4, cudaMemcpyDeviceToHost, native(compute)));
    compute.synchronize();
    return *static_cast<float*>(host.data());
  }
};

cudasim::Config in_order(cudasim::Order order, std::uint32_t seed) {
  cudasim::Config config = cudasim::config();
  config.order = order;
  config.seed = seed;
  return config;
}

}  // namespace

TEST_CASE("a recording runs nothing when it is made, and again with each replay") {
  Rig rig;
  rig.compute.begin_recording();
  CHECK(rig.compute.recording());
  add(rig.compute, rig.at(0), rig.at(0), 1);
  const std::unique_ptr<Recording> recording = rig.compute.end_recording();
  CHECK_FALSE(rig.compute.recording());
  CHECK(rig.read(0) == 0);
  for (int i = 0; i < 3; ++i) recording->replay(rig.compute);
  CHECK(rig.read(0) == 3);
}

TEST_CASE("a recording holds what other streams do between two events, in every order that they allow") {
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    const cudasim::Configured scope(
        in_order(seed == 0 ? cudasim::Order::forward : cudasim::Order::random, seed));
    Rig rig;
    rig.compute.begin_recording();
    add(rig.compute, rig.at(0), rig.at(0), 1);
    rig.comm.wait(rig.compute.record());
    CHECK(rig.comm.recording());
    add(rig.comm, rig.at(0), rig.at(1), 10);
    add(rig.compute, rig.at(0), rig.at(2), 100);
    rig.compute.wait(rig.comm.record());
    add(rig.compute, rig.at(1), rig.at(1), 1000);
    const std::unique_ptr<Recording> recording = rig.compute.end_recording();
    CHECK_FALSE(rig.comm.recording());
    recording->replay(rig.compute);
    recording->replay(rig.compute);
    CHECK(rig.read(0) == 2);
    CHECK(rig.read(1) == 1012);
    CHECK(rig.read(2) == 102);
  }
}

TEST_CASE("work that no event orders runs in either order") {
  std::set<float> seen;
  for (std::uint32_t seed = 1; seed < 20; ++seed) {
    const cudasim::Configured scope(in_order(cudasim::Order::random, seed));
    Rig rig;
    rig.compute.begin_recording();
    rig.comm.wait(rig.compute.record());
    add(rig.comm, rig.at(0), rig.at(1), 10);
    add(rig.compute, rig.at(0), rig.at(0), 1);  // should have waited for the read above
    rig.compute.wait(rig.comm.record());
    rig.compute.end_recording()->replay(rig.compute);
    seen.insert(rig.read(1));
  }
  CHECK(seen == std::set<float>{10, 11});
}

TEST_CASE("what cannot be recorded is an error, and ends the recording") {
  Rig rig;
  const auto broken = [&](const auto& action) {
    rig.compute.begin_recording();
    const Event outside;
    CHECK_THROWS_AS(action(), Error);
    CHECK_THROWS_AS(rig.compute.end_recording(), Error);
    CHECK_FALSE(rig.compute.recording());
    CHECK_FALSE(rig.comm.recording());
  };
  const Event before = rig.comm.record();
  float pageable = 0;
  broken([&] { rig.compute.synchronize(); });
  broken([&] { rig.allocator.allocate(16); });
  broken([&] { rig.pinned.allocate(16); });
  broken([&] { rig.compute.wait(before); });
  broken([&] { CUDA_CHECK(cudaDeviceSynchronize()); });
  broken([&] {
    CUDA_CHECK(cudaMemcpyAsync(&pageable, rig.at(0), 4, cudaMemcpyDeviceToHost, native(rig.compute)));
  });

  // A host task is refused before CUDA sees it; an event of the recording belongs to it.
  rig.compute.begin_recording();
  CHECK_THROWS_AS(rig.compute.submit([] {}), Error);
  const Event inside = rig.compute.record();
  CHECK_THROWS_AS(rig.compute.begin_recording(), Error);
  rig.compute.end_recording();
  CHECK_THROWS_AS(inside.query(), Error);

  // Work of another stream that nobody waits for.
  rig.compute.begin_recording();
  rig.comm.wait(rig.compute.record());
  add(rig.comm, rig.at(0), rig.at(1), 1);
  CHECK_THROWS_AS(rig.compute.end_recording(), Error);
  CHECK(rig.read(1) == 0);
}

TEST_CASE("a graph that cannot be made or launched is an error, and nothing leaks") {
  for (const char* call :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphLaunch"}) {
    INFO(call);
    {
      Rig rig;
      cudasim::Config config = cudasim::config();
      config.failing_call = call;
      config.failing_number = 1;
      const cudasim::Configured scope(config);
      CHECK_THROWS_AS(
          [&] {
            rig.compute.begin_recording();
            add(rig.compute, rig.at(0), rig.at(0), 1);
            rig.compute.end_recording()->replay(rig.compute);
          }(),
          Error);
      // The capture of a call that was only ordered to fail goes on.
      if (rig.compute.recording()) rig.compute.end_recording();
    }
    CHECK(cudasim::alive() == cudasim::Alive{});
  }
}
