// How the simulated GPU runs the threads of a kernel, and what it says of wrong ones.
#include "cudasim/simt.h"

#include <cuda_runtime.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "catch.h"

using namespace cudasim;

namespace {

constexpr Order kOrders[] = {Order::forward, Order::reversed, Order::random};

std::string run(dim3 grid, dim3 block, const std::function<void()>& body, Order order = Order::forward,
                std::uint32_t seed = 1) {
  return run_grid({grid, block, order, seed}, body);
}

// The sum of a block's values, by halving; `careful` is what a correct kernel does between two rounds.
void sum_block(const float* values, float* sum, bool careful) {
  static __shared__ float part[256];
  part[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    if (careful) __syncthreads();
  }
  if (threadIdx.x == 0) *sum = part[0];
}

}  // namespace

TEST_CASE("simt: every thread of the grid runs once, in every order") {
  const dim3 grid(3, 2, 2), block(5, 3, 2);
  for (const Order order : kOrders) {
    std::vector<int> runs(12 * 30);
    const auto body = [&] {
      if (gridDim.x != 3 || blockDim.y != 3) return;
      const unsigned of_block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      const unsigned of_thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
      ++runs[of_block * 30 + of_thread];
    };
    CHECK(run(grid, block, body, order).empty());
    CHECK(runs == std::vector<int>(runs.size(), 1));
  }
}

TEST_CASE("simt: barriers order the threads of a block") {
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 0.0f);
  for (const Order order : kOrders) {
    for (const std::uint32_t seed : {1u, 2u, 3u}) {
      float sum = 0;
      CHECK(run(
                1, 256, [&] { sum_block(values.data(), &sum, true); }, order, seed)
                .empty());
      CHECK(sum == 255 * 128);
    }
  }
}

TEST_CASE("simt: a barrier that is missing shows in some order", "[race]") {
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 0.0f);
  int wrong = 0;
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    float sum = 0;
    CHECK(run(
              1, 256, [&] { sum_block(values.data(), &sum, false); }, Order::random, seed)
              .empty());
    wrong += sum != 255 * 128 ? 1 : 0;
  }
  CHECK(wrong > 0);
}

TEST_CASE("simt: shared memory that nobody wrote is NaN, in every block", "[poison]") {
  std::vector<float> seen(4);
  const auto body = [&] {
    static __shared__ float value[1];
    seen[blockIdx.x] = value[0];
    value[0] = 1;
  };
  CHECK(run(4, 1, body).empty());
  for (const float value : seen) CHECK(std::isnan(value));
}

TEST_CASE("simt: shuffles move values between the lanes of a warp") {
  for (const Order order : kOrders) {
    std::vector<int> down(64), up(64), across(64), from(64), narrow(64);
    const auto body = [&] {
      const int own = static_cast<int>(threadIdx.x);
      down[threadIdx.x] = __shfl_down_sync(~0u, own, 3);
      up[threadIdx.x] = __shfl_up_sync(~0u, own, 3);
      across[threadIdx.x] = __shfl_xor_sync(~0u, own, 5);
      from[threadIdx.x] = __shfl_sync(~0u, own, 7);
      narrow[threadIdx.x] = __shfl_down_sync(~0u, own, 1, 8);
    };
    CHECK(run(1, 64, body, order).empty());
    for (int i = 0; i < 64; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const int lane = i % 32;
      CHECK(down[at] == (lane + 3 < 32 ? i + 3 : i));
      CHECK(up[at] == (lane >= 3 ? i - 3 : i));
      CHECK(across[at] == i / 32 * 32 + (lane ^ 5));
      CHECK(from[at] == i / 32 * 32 + 7);
      CHECK(narrow[at] == (i % 8 == 7 ? i : i + 1));
    }
  }
}

TEST_CASE("simt: votes, and a warp that is not full") {
  for (const Order order : kOrders) {
    unsigned ballot = 0;
    int any = 0, all = 0;
    const auto body = [&] {
      const unsigned mask = threadIdx.x < 32 ? ~0u : 0xffu;
      const unsigned odd = __ballot_sync(mask, threadIdx.x & 1);
      const int some = __any_sync(mask, threadIdx.x == 35), every = __all_sync(mask, 1);
      if (threadIdx.x == 39) ballot = odd, any = some, all = every;
    };
    CHECK(run(1, 40, body, order).empty());
    CHECK(ballot == 0xaau);
    CHECK(any == 1);
    CHECK(all == 1);
  }
}

TEST_CASE("simt: what a thread does wrong is told with its place, and ends the kernel") {
  const auto message = [](dim3 block, const std::function<void()>& body) {
    int after = 0;
    const std::string text = run(3, block, [&] {
      if (blockIdx.x == 2) ++after;
      if (blockIdx.x == 1) body();
    });
    CHECK(after == 0);
    return text;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    CHECK(text.find("(block 1,0,0, thread ") != std::string::npos);
  };
  has(message(64,
              [] {
                if (threadIdx.x < 40) __syncthreads();
              }),
      "some threads have left");
  has(message(64,
              [] {
                if (threadIdx.x < 32) {
                  __syncthreads();
                } else {
                  __syncthreads();
                  asm volatile("");  // or the two would be one
                }
              }),
      "different __syncthreads()");
  has(message(32,
              [] {
                if (threadIdx.x == 0) {
                  __syncthreads();
                } else {
                  __syncwarp();
                }
              }),
      "deadlock");
  has(message(32, [] { __shfl_sync(0xffffu, 1, 20); }), "mask");
  has(message(32,
              [] {
                if (threadIdx.x != 3) __syncwarp();
              }),
      "has left");
  has(message(32,
              [] {
                if (threadIdx.x == 3) __syncwarp(0x7u);
              }),
      "");
}
