// Runs the threads of a kernel on the CPU: one block after the other, each CUDA thread a fiber that runs
// until it meets a barrier or a shuffle.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>

namespace cudasim {

enum class Order { forward, reversed, random };

struct Launch {
  dim3 grid, block;
  Order order = Order::forward;  // of blocks, and of threads between two scheduling points
  std::uint32_t seed = 0;        // of the random order
};

// Runs body() for each thread of the grid, to the end, on the calling host thread. Shared memory starts as
// NaN in every block. Returns what a thread did wrong, with its block and thread, or an empty string:
//   threads of a block at different __syncthreads(), or at one that others passed by leaving the kernel
//   a lane in a warp operation that is not in its own mask, or that reads or waits for one that has left
//   threads that wait for each other for ever
// The kernel ends there; the rest of the grid does not run.
std::string run_grid(const Launch& launch, const std::function<void()>& body);

}  // namespace cudasim
