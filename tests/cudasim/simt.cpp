#include "cudasim/simt.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "cudasim/fiber.h"
#include "cudasim/include/cuda_runtime.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

// Bounds of the section that all `static __shared__` variables lie in; absent where a program has none.
extern char __start_cudasim_shared[] __attribute__((weak));
extern char __stop_cudasim_shared[] __attribute__((weak));

namespace cudasim {
namespace {

constexpr int kWarp = 32;

enum class State { fresh, ready, at_block_barrier, at_warp_barrier, left };

struct Thread {
  State state = State::fresh;
  unsigned mask = 0;            // of the warp operation
  const void* where = nullptr;  // of the barrier
  Fiber* fiber = nullptr;
  unsigned exchanges = 0;  // warp exchanges done: their values lie in two rows, used in turn
};

void start_of_fiber();

// A block at a time; all of it belongs to the one host thread that is in run_grid.
class Block {
 public:
  Block(const Launch& launch, const std::function<void()>& body, FiberPool& pool, TsanThreads& tsan)
      : body_(body), pool_(pool), tsan_(tsan) {
    threads_.resize(launch.block.x * launch.block.y * launch.block.z);
    values_.resize(2 * threads_.size());
    order_.resize(threads_.size());
    std::iota(order_.begin(), order_.end(), 0);
  }

  std::vector<int>& order() { return order_; }
  bool faulty() const { return fault_ != nullptr; }
  std::string fault() const {
    if (!faulty()) return {};
    char place[160];
    std::snprintf(place, sizeof(place), " (block %u,%u,%u, thread %d)", blockIdx.x, blockIdx.y, blockIdx.z,
                  at_);
    return std::string(fault_) + place;
  }

  void run() {
    if (__start_cudasim_shared) {
      std::memset(__start_cudasim_shared, 0xff,
                  static_cast<std::size_t>(__stop_cudasim_shared - __start_cudasim_shared));
    }
    std::fill(threads_.begin(), threads_.end(), Thread{});
    running_ = count();
    next_fresh_ = 0;
    tsan_.begin_block(threads_.size());
    while (running_ > 0 && !faulty()) {
      resume_all();
      if (running_ > 0 && !faulty()) release();
    }
    tsan_.end_block();
    faulty() ? pool_.discard() : pool_.reclaim();
  }

  // The body of a fiber: threads that never wait share one, which then costs a call each. (ThreadSanitizer
  // would take a stack that two threads use for a race.)
  void run_fresh_threads() {
    do {
      const int thread = order_[next_fresh_++];
      set_current(thread);
      current().state = State::ready;
      current().fiber = fiber_;
      tsan_.begin_thread(thread);
      body_();
      tsan_.end_thread();
      current().state = State::left;
      current().fiber = nullptr;
      --running_;
    } while (!TsanThreads::kOn && next_fresh_ < order_.size());
    fiber_->leave();
  }

  // --- called on the fibers of CUDA threads ---
  void stop(State state, unsigned mask, const void* where) {
    Thread& thread = current();
    thread.state = state;
    thread.mask = mask;
    thread.where = where;
    void* tag = state == State::at_block_barrier ? static_cast<void*>(this) : &threads_[warp_of(current_)];
    tsan_.release(tag);
    leave_fiber();
    tsan_.acquire(tag);
  }

  [[noreturn]] void fail(const char* what) {
    set_fault(what, current_);
    leave_fiber();
    std::abort();  // the scheduler does not come back
  }

  std::uint64_t exchange(unsigned mask, std::uint64_t value, int source, const void* where) {
    const int own = lane();
    const int from = source < 0 ? own : source;
    if (!(mask >> own & 1)) fail("a lane is not in the mask of its own warp operation");
    if (!(mask >> from & 1)) fail("a shuffle reads a lane outside of its mask");
    std::uint64_t* row = give(value);
    const std::size_t warp = warp_of(current_);
    stop(State::at_warp_barrier, mask, where);
    const std::size_t at = warp + static_cast<std::size_t>(from);
    return at < threads_.size() ? row[at] : value;
  }

  unsigned ballot(unsigned mask, bool predicate, const void* where) {
    if (!(mask >> lane() & 1)) fail("a lane is not in the mask of its own warp operation");
    const std::uint64_t* row = give(predicate ? 1 : 0);
    const std::size_t warp = warp_of(current_);
    stop(State::at_warp_barrier, mask, where);
    unsigned result = 0;
    for (std::size_t i = 0; i < kWarp && warp + i < threads_.size(); ++i) {
      if ((mask >> i & 1) && row[warp + i] != 0) result |= 1u << i;
    }
    return result;
  }

  int lane() const { return current_ % kWarp; }

 private:
  int count() const { return static_cast<int>(threads_.size()); }
  Thread& at(int thread) { return threads_[static_cast<std::size_t>(thread)]; }
  Thread& current() { return at(current_); }
  static std::size_t warp_of(int thread) { return static_cast<std::size_t>(thread / kWarp * kWarp); }

  std::uint64_t* give(std::uint64_t value) {
    std::uint64_t* row = values_.data() + (current().exchanges++ % 2) * threads_.size();
    row[current_] = value;
    return row;
  }

  void set_fault(const char* what, int thread) {
    fault_ = what;
    at_ = thread;
  }

  void set_current(int thread) {
    current_ = thread;
    const auto linear = static_cast<unsigned>(thread);
    threadIdx = {linear % blockDim.x, linear / blockDim.x % blockDim.y, linear / (blockDim.x * blockDim.y)};
  }

  // Lets every thread that can run do so, until each waits or has left.
  void resume_all() {
    while (next_fresh_ < order_.size() && !faulty()) {
      enter(pool_.take(start_of_fiber));
    }
    for (const int thread : order_) {
      if (faulty()) return;
      if (at(thread).state != State::ready) continue;
      set_current(thread);
      tsan_.resume(thread);
      enter(at(thread).fiber);
    }
  }

  void enter(Fiber* fiber) {
    fiber_ = fiber;
    fiber->enter();
  }
  void leave_fiber() {
    tsan_.suspend();
    fiber_->leave();
  }

  // Every thread waits or has left: lets those go on whose barrier is complete.
  void release() {
    bool released = false;
    for (std::size_t warp = 0; warp < threads_.size(); warp += kWarp) released |= release_warp(warp);
    if (released || faulty()) return;
    const auto waits = [](const Thread& t) { return t.state == State::at_block_barrier; };
    const auto waiting = std::count_if(threads_.begin(), threads_.end(), waits);
    const int first = first_waiting();
    if (waiting < running_) {
      set_fault("deadlock: some threads wait at __syncthreads(), others in a warp operation", first);
      return;
    }
    if (running_ < count()) {
      set_fault("__syncthreads() in a block of which some threads have left", first);
      return;
    }
    for (int i = 0; i < count(); ++i) {
      if (at(i).where != at(0).where) {
        set_fault("threads of one block wait at different __syncthreads()", i);
        return;
      }
    }
    for (Thread& thread : threads_) thread.state = State::ready;
  }

  int first_waiting() const {
    const auto waits = [](const Thread& t) { return t.state != State::left; };
    return static_cast<int>(std::find_if(threads_.begin(), threads_.end(), waits) - threads_.begin());
  }

  // Releases each group of lanes that has come to its warp operation in full.
  bool release_warp(std::size_t warp) {
    const std::size_t lanes = std::min<std::size_t>(kWarp, threads_.size() - warp);
    const unsigned existing = lanes == kWarp ? ~0u : (1u << lanes) - 1;
    bool released = false;
    for (std::size_t i = 0; i < lanes; ++i) {
      const Thread& thread = threads_[warp + i];
      if (thread.state != State::at_warp_barrier) continue;
      const unsigned mask = thread.mask & existing;
      const void* where = thread.where;
      bool complete = true;
      for (std::size_t j = 0; j < lanes; ++j) {
        const Thread& other = threads_[warp + j];
        if (!(mask >> j & 1)) continue;
        if (other.state == State::left) {
          set_fault("a warp operation names a lane that has left the kernel", static_cast<int>(warp + i));
          return false;
        }
        complete &=
            other.state == State::at_warp_barrier && other.mask == thread.mask && other.where == where;
      }
      if (!complete) continue;
      for (std::size_t j = 0; j < lanes; ++j) {
        if (mask >> j & 1) threads_[warp + j].state = State::ready;
      }
      released = true;
    }
    return released;
  }

  const std::function<void()>& body_;
  std::vector<Thread> threads_;
  std::vector<std::uint64_t> values_;
  std::vector<int> order_;
  std::size_t next_fresh_ = 0;
  int running_ = 0;
  int current_ = 0;
  Fiber* fiber_ = nullptr;
  FiberPool& pool_;
  TsanThreads& tsan_;
  const char* fault_ = nullptr;  // no std::string: what fibers touch is none of ThreadSanitizer's business
  int at_ = 0;
};

Block* running_block = nullptr;  // what the built-ins of device code speak to

void start_of_fiber() {
  running_block->run_fresh_threads();
}

void arrange(std::vector<int>& order, const Launch& launch, std::mt19937& random) {
  std::iota(order.begin(), order.end(), 0);
  if (launch.order == Order::reversed) std::reverse(order.begin(), order.end());
  if (launch.order == Order::random) std::shuffle(order.begin(), order.end(), random);
}

}  // namespace

std::string run_grid(const Launch& launch, const std::function<void()>& body) {
  gridDim = launch.grid;
  blockDim = launch.block;
  static FiberPool pool;  // stacks are costly to make
  static TsanThreads tsan;
  Block block(launch, body, pool, tsan);
  running_block = &block;
  std::mt19937 random(launch.seed);
  std::vector<int> blocks(std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z);
  arrange(blocks, launch, random);
  for (const int index : blocks) {
    const auto linear = static_cast<unsigned>(index);
    blockIdx = {linear % gridDim.x, linear / gridDim.x % gridDim.y, linear / (gridDim.x * gridDim.y)};
    arrange(block.order(), launch, random);
    block.run();
    if (block.faulty()) break;
  }
  running_block = nullptr;
  return block.fault();
}

void block_barrier(const void* where) {
  running_block->stop(State::at_block_barrier, 0, where);
}
void warp_barrier(unsigned mask, const void* where) {
  running_block->stop(State::at_warp_barrier, mask, where);
}
std::uint64_t warp_exchange(unsigned mask, std::uint64_t value, int source, const void* where) {
  return running_block->exchange(mask, value, source, where);
}
unsigned warp_ballot(unsigned mask, bool predicate, const void* where) {
  return running_block->ballot(mask, predicate, where);
}
int lane() {
  return running_block->lane();
}

}  // namespace cudasim
