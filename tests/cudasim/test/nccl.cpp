// NCCL: the double's collectives and its refusals, and NcclCommunicator, with ranks as threads on two
// devices.
#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "comm/nccl_communicator.h"
#include "comm/nccl_devices.h"
#include "comm/reducer.h"
#include "comm/reducer_step.h"
#include "comm/thread_communicator.h"
#include "core/cuda_check.h"
#include "core/tensor.h"
#include "cudasim/cudasim.h"

using namespace lockstep;
using namespace lockstep::test;
using namespace std::chrono_literals;

namespace {

constexpr int kRanks = 2;
constexpr int kCount = 100'000;  // more than one piece of the double

// In the threads of ranks, where Catch2's own checks are not allowed: on_double() and run_ranks() bring it
// back.
#define EXPECT(...)                                                     \
  do {                                                                  \
    if (!(__VA_ARGS__)) throw std::runtime_error("not: " #__VA_ARGS__); \
  } while (false)

void check(ncclResult_t result) {
  if (result != ncclSuccess) throw std::runtime_error(ncclGetErrorString(result));
}

// One rank on the double alone.
struct Rank {
  Rank(ncclUniqueId id, int rank) : stream(rank), allocator(rank), memory(allocator, kCount * 4) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    check(ncclCommInitRankConfig(&comm, kRanks, id, rank, &config));
  }
  ~Rank() { ncclCommDestroy(comm); }
  float* data() const { return static_cast<float*>(memory.data()); }
  cudaStream_t native() { return static_cast<cudaStream_t>(stream.native_handle()); }
  void fill(float value) {
    const std::vector<float> values(kCount, value);
    CUDA_CHECK(cudaMemcpyAsync(data(), values.data(), kCount * 4, cudaMemcpyHostToDevice, native()));
  }
  float last() {
    float value = 0;
    CUDA_CHECK(cudaMemcpyAsync(&value, data() + kCount - 1, 4, cudaMemcpyDeviceToHost, native()));
    return value;
  }
  ncclResult_t error() const {
    ncclResult_t result = ncclSuccess;
    check(ncclCommGetAsyncError(comm, &result));
    return result;
  }
  CudaStream stream;
  CudaAllocator allocator;
  Buffer memory;
  ncclComm_t comm = nullptr;
};

// body(rank, index) in a thread each; what they threw, as text.
std::vector<std::string> on_double(const std::function<void(Rank&, int)>& body) {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  return run_ranks(kRanks, [&](Communicator& communicator) {
    Rank rank(id, communicator.rank());
    body(rank, communicator.rank());
    communicator.barrier("end");
  });
}

void no_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == "");
}

// body(communicator, device) on NcclCommunicators.
std::vector<std::string> on_communicators(
    const std::function<void(NcclCommunicator&)>& body, std::vector<int> devices = {0, 1},
    const std::function<void(const std::string&)>& on_failure = nullptr) {
  return run_ranks(kRanks, [&](Communicator& host) {
    NcclCommunicator communicator(host, devices[static_cast<std::size_t>(host.rank())], 60s,
                                  [&](const std::string& message) {
                                    if (on_failure) on_failure(message);
                                  });
    body(communicator);
  });
}

}  // namespace

TEST_CASE("nccl double: sum, mean, maximum and broadcast between threads") {
  no_errors(on_double([](Rank& rank, int index) {
    const auto reduced = [&](ncclRedOp_t op) {
      rank.fill(static_cast<float>(1 + 2 * index));
      check(ncclAllReduce(rank.data(), rank.data(), kCount, ncclFloat, op, rank.comm, rank.native()));
      return rank.last();
    };
    EXPECT(reduced(ncclSum) == 4);
    EXPECT(reduced(ncclAvg) == 2);
    EXPECT(reduced(ncclMax) == 3);
    rank.fill(static_cast<float>(7 + index));
    check(ncclBroadcast(rank.data(), rank.data(), kCount, ncclFloat, 1, rank.comm, rank.native()));
    EXPECT(rank.last() == 8);
    EXPECT(rank.error() == ncclSuccess);
  }));
}

TEST_CASE("nccl double: reduce_scatter and all_gather are the halves of an all_reduce") {
  no_errors(on_double([](Rank& rank, int index) {
    constexpr int kPart = kCount / kRanks;
    rank.fill(static_cast<float>(1 + 2 * index));
    float* own = rank.data() + kPart * index;
    check(ncclReduceScatter(rank.data(), own, kPart, ncclFloat, ncclSum, rank.comm, rank.native()));
    EXPECT(rank.last() == (index == 1 ? 4 : 1));  // rank 0 has the other half
    check(ncclAllGather(own, rank.data(), kPart, ncclFloat, rank.comm, rank.native()));
    EXPECT(rank.last() == 4);
    std::vector<float> host(10);
    EXPECT(ncclReduceScatter(host.data(), host.data(), 5, ncclFloat, ncclSum, rank.comm, rank.native()) ==
           ncclInvalidArgument);
    EXPECT(ncclAllGather(own, host.data(), 5, ncclFloat, rank.comm, rank.native()) == ncclInvalidArgument);
    EXPECT(rank.error() == ncclSuccess);
  }));
}

TEST_CASE("nccl double: ranks that do not call the same are told") {
  using Calls = std::function<void(Rank&, int)>;
  const auto reduce = [](Rank& rank, std::size_t count, ncclRedOp_t op) {
    check(ncclAllReduce(rank.data(), rank.data(), count, ncclFloat, op, rank.comm, rank.native()));
  };
  const auto broadcast = [](Rank& rank, int root) {
    check(ncclBroadcast(rank.data(), rank.data(), kCount, ncclFloat, root, rank.comm, rank.native()));
  };
  const std::vector<Calls> cases = {
      [&](Rank& rank, int index) { reduce(rank, index == 0 ? 10 : 11, ncclSum); },
      [&](Rank& rank, int index) { reduce(rank, 10, index == 0 ? ncclSum : ncclMax); },
      [&](Rank& rank, int index) { broadcast(rank, index); },
      [&](Rank& rank, int index) { index == 0 ? broadcast(rank, 0) : reduce(rank, kCount, ncclSum); },
      // The same two collectives in another order.
      [&](Rank& rank, int index) {
        for (const int which : {index, 1 - index}) reduce(rank, which == 0 ? 10 : 20, ncclSum);
      },
  };
  for (const Calls& calls : cases) {
    no_errors(on_double([&](Rank& rank, int index) {
      rank.fill(1);
      calls(rank, index);
      rank.stream.synchronize();
      EXPECT(rank.error() == ncclInvalidUsage);
      EXPECT(std::string(ncclGetLastError(rank.comm)).find("rank 1 calls nccl") != std::string::npos);
    }));
  }
}

TEST_CASE("nccl double: host memory, a wrong type, a wrong root, and two ranks on one device are refused") {
  no_errors(on_double([](Rank& rank, int) {
    std::vector<float> host(10);
    EXPECT(ncclAllReduce(host.data(), host.data(), 10, ncclFloat, ncclSum, rank.comm, rank.native()) ==
           ncclInvalidArgument);
    EXPECT(ncclAllReduce(rank.data(), rank.data(), 10, ncclHalf, ncclSum, rank.comm, rank.native()) ==
           ncclInvalidArgument);
    EXPECT(ncclBroadcast(rank.data(), rank.data(), 10, ncclFloat, 2, rank.comm, rank.native()) ==
           ncclInvalidArgument);
  }));
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  const auto errors = run_ranks(kRanks, [&](Communicator& communicator) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = nullptr;
    check(ncclCommInitRankConfig(&comm, kRanks, id, communicator.rank(), &config));  // both on device 0
  });
  for (const std::string& error : errors) CHECK(error == "invalid usage");
}

TEST_CASE("NcclCommunicator: the reducer's averages, in every order of readiness, lazy and eager") {
  for (const bool eager : {false, true}) {
    cudasim::Config config = cudasim::config();
    config.eager = eager;
    const cudasim::Configured scope(config);
    for (const unsigned seed : {1u, 2u, 3u}) {
      const Network network = random_network(seed);
      no_errors(on_communicators([&](NcclCommunicator& communicator) {
        const int rank = communicator.rank();
        CudaStream compute(rank);
        Buffer gradients(communicator.allocator(), network.length() * 4);
        std::vector<float> host(static_cast<std::size_t>(network.length()));
        Reducer reducer(communicator, compute, network.buckets, network.names,
                        static_cast<float*>(gradients.data()), {});
        for (int step = 0; step < 3; ++step) {
          for (int p = 0; p < network.parameters(); ++p) write_gradient(network, rank, step, p, host.data());
          CUDA_CHECK(cudaMemcpyAsync(gradients.data(), host.data(), host.size() * 4, cudaMemcpyHostToDevice,
                                     static_cast<cudaStream_t>(compute.native_handle())));
          reducer.begin();
          for (int p = 0; p < network.parameters(); ++p) {
            const int next = rank == 0 ? p : network.parameters() - 1 - p;  // buckets fill in opposite orders
            reducer.on_gradients_ready(next, next);
          }
          reducer.finish();
          CUDA_CHECK(cudaMemcpyAsync(host.data(), gradients.data(), host.size() * 4, cudaMemcpyDeviceToHost,
                                     static_cast<cudaStream_t>(compute.native_handle())));
          EXPECT(wrong_elements(network, kRanks, step, host.data()) == 0);
        }
      }));
    }
  }
  CHECK(cudasim::alive() == cudasim::Alive{});
}

TEST_CASE("NcclCommunicator: what it is called, sum and maximum, host collectives") {
  no_errors(on_communicators([](NcclCommunicator& communicator) {
    EXPECT(communicator.name() == std::string("nccl"));
    EXPECT(communicator.description().find("NCCL 2.") == 0);
    EXPECT(communicator.description().find("NCCL_ALGO") != std::string::npos);
    Buffer memory(communicator.allocator(), 4);
    PinnedAllocator pinned;
    Buffer host(pinned, 4);
    auto* stream = static_cast<cudaStream_t>(communicator.stream().native_handle());
    const auto reduced = [&](ReduceOp op) {
      *static_cast<float*>(host.data()) = static_cast<float>(3 + communicator.rank());
      CUDA_CHECK(cudaMemcpyAsync(memory.data(), host.data(), 4, cudaMemcpyHostToDevice, stream));
      communicator.all_reduce(static_cast<float*>(memory.data()), 1, op, "test");
      CUDA_CHECK(cudaMemcpyAsync(host.data(), memory.data(), 4, cudaMemcpyDeviceToHost, stream));
      communicator.stream().synchronize();
      return *static_cast<float*>(host.data());
    };
    EXPECT(reduced(ReduceOp::sum) == 7);
    EXPECT(reduced(ReduceOp::max) == 4);
    EXPECT(reduced(ReduceOp::mean) == 3.5f);
    double value = communicator.rank();
    communicator.all_reduce_host(&value, 1, ReduceOp::sum, "test");
    EXPECT(value == 1);
    int root = communicator.rank() + 5;
    communicator.broadcast_host(&root, sizeof root, 1, "test");
    EXPECT(root == 6);
    communicator.barrier("test");
    EXPECT(all_gather_text(communicator, std::to_string(communicator.rank())) ==
           std::vector<std::string>{"0", "1"});
  }));
}

TEST_CASE("NcclCommunicator: reduce_scatter, all_gather and broadcast in place, exact") {
  no_errors(on_communicators([](NcclCommunicator& communicator) {
    const int rank = communicator.rank();
    for (const std::int64_t count : {2, 1000, 200'002}) {
      Buffer memory(communicator.allocator(), count * 4);
      std::vector<float> host(static_cast<std::size_t>(count));
      const auto value = [](int of_rank, std::int64_t i) {
        return static_cast<float>((i + 7 * of_rank) % 1000);
      };
      const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
        CUDA_CHECK(cudaMemcpyAsync(to, from, host.size() * 4, kind,
                                   static_cast<cudaStream_t>(communicator.stream().native_handle())));
        communicator.stream().synchronize();
      };
      auto* data = static_cast<float*>(memory.data());
      const auto fill = [&] {
        for (std::int64_t i = 0; i < count; ++i) host[static_cast<std::size_t>(i)] = value(rank, i);
        copy(data, host.data(), cudaMemcpyHostToDevice);
      };
      const auto count_wrong = [&](const std::function<float(std::int64_t)>& expected) {
        copy(host.data(), data, cudaMemcpyDeviceToHost);
        int wrong = 0;
        for (std::int64_t i = 0; i < count; ++i) wrong += host[static_cast<std::size_t>(i)] != expected(i);
        return wrong;
      };
      fill();
      communicator.reduce_scatter(data, count, ReduceOp::mean, "test");
      const Range mine = chunk_of(count, communicator.size(), rank);
      const auto mean = [&](std::int64_t i) { return 0.5f * (value(0, i) + value(1, i)); };
      EXPECT(count_wrong([&](std::int64_t i) {
               return mine.begin <= i && i < mine.begin + mine.length ? mean(i) : value(rank, i);
             }) == 0);
      communicator.all_gather(data, count, "test");
      EXPECT(count_wrong(mean) == 0);
      fill();
      communicator.broadcast(data, count, 1, "test");
      EXPECT(count_wrong([&](std::int64_t i) { return value(1, i); }) == 0);
    }
    Buffer memory(communicator.allocator(), 12);
    std::string refusal;
    try {
      communicator.reduce_scatter(static_cast<float*>(memory.data()), 3, ReduceOp::sum, "test");
    } catch (const Error& error) {
      refusal = error.what();
    }
    EXPECT(refusal.find("3 elements are no multiple of 2 ranks") != std::string::npos);
  }));
}

TEST_CASE("NcclCommunicator: two ranks on one device, and a call that NCCL refuses") {
  for (const std::string& error : on_communicators([](NcclCommunicator&) {}, {1, 1})) {
    CHECK(error.find("ranks 0 and 1 on host") != std::string::npos);
    CHECK(error.find("CUDA_VISIBLE_DEVICES") != std::string::npos);
  }
  const auto with_failure = [](const char* call, int number) {
    cudasim::Config config = cudasim::config();
    config.failing_call = call;
    config.failing_number = number;
    config.failing_error = static_cast<cudaError_t>(ncclInternalError);
    return config;
  };
  {
    const cudasim::Configured scope(with_failure("ncclGetUniqueId", 1));
    for (const std::string& error : on_communicators([](NcclCommunicator&) {}))
      CHECK(error.find("on rank 0: NCCL failed in start-up") == 0);
  }
  {
    const cudasim::Configured scope(with_failure("cudaGetDeviceProperties", 1));
    for (const std::string& error : on_communicators([](NcclCommunicator&) {}))
      CHECK(error.find("cudaGetDeviceProperties") != std::string::npos);
  }
  const cudasim::Configured scope(with_failure("ncclAllReduce", 1));
  const auto errors = on_communicators([](NcclCommunicator& communicator) {
    Buffer memory(communicator.allocator(), 4);
    communicator.all_reduce(static_cast<float*>(memory.data()), 1, ReduceOp::sum, "all_reduce of bucket 3");
  });
  // One rank had the error; the other's collective is aborted with it, or was never enqueued.
  const std::string both = errors[0] + errors[1];
  CHECK(both.find("NCCL failed in all_reduce of bucket 3 on rank") != std::string::npos);
  CHECK(both.find("NCCL_DEBUG=INFO") != std::string::npos);
}

TEST_CASE("NcclCommunicator: an error that comes while a collective is under way names it") {
  std::atomic<int> told = 0;
  std::string message;
  std::mutex mutex;
  on_communicators(
      [&](NcclCommunicator& communicator) {
        Buffer memory(communicator.allocator(), 80);
        // The ranks disagree about the length: the double ends both, NCCL would hang.
        communicator.all_reduce(static_cast<float*>(memory.data()), 10 + communicator.rank(), ReduceOp::sum,
                                "all_reduce of bucket 7");
        communicator.stream().submit([&] {
          while (told < kRanks) std::this_thread::sleep_for(1ms);
        });
        communicator.watch("the step", communicator.stream().record());
        communicator.stream().synchronize();
      },
      {0, 1},
      [&](const std::string& text) {
        const std::lock_guard lock(mutex);
        message = text;
        ++told;
      });
  CHECK(told >= kRanks);  // a program would have ended at the first
  CHECK(message.find("NCCL failed in") == 0);
  CHECK(message.find("rank 1 calls ncclAllReduce of 11") != std::string::npos);
}

TEST_CASE("devices: how much shared memory NCCL may need, and what to do without it") {
  CHECK(shared_memory_problem(std::int64_t{64} << 20, 2) == "");
  const std::string problem = shared_memory_problem(std::int64_t{64} << 20, 8);
  CHECK(problem.find("64 MiB left") != std::string::npos);
  CHECK(problem.find("8 ranks") != std::string::npos);
  CHECK(problem.find("--shm-size=1g") != std::string::npos);
}
