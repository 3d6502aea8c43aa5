// A stack of its own for a function that can stop in the middle and be resumed: what a CUDA thread runs on.
// One host thread at a time uses fibers. The sanitizers are told of every switch.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace cudasim {

class Fiber {
 public:
  // stagger: fibers whose stacks all began at the same offset of a page would share cache sets.
  explicit Fiber(std::size_t stagger);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void start(void (*body)());  // the next enter() calls body, whatever this fiber did before
  void enter();                // until the fiber leaves
  void leave();                // on the fiber: back to enter()'s caller. body must leave, not return

 private:
  static void first_entry();

  char* stack_;
  std::size_t stagger_;
  void* own_ = nullptr;  // stack pointers of the side that does not run
  void* other_ = nullptr;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  const void* caller_bottom_ = nullptr;
  std::size_t caller_size_ = 0;
};

// Fibers of a block: taken one by one, all given back together.
class FiberPool {
 public:
  Fiber* take(void (*body)()) {
    if (used_ == fibers_.size()) fibers_.push_back(std::make_unique<Fiber>(used_));
    fibers_[used_]->start(body);
    return fibers_[used_++].get();
  }
  void reclaim() { used_ = 0; }
  // Where fibers were left in the middle: what the sanitizers remember of their stacks goes with them.
  void discard() {
    fibers_.clear();
    used_ = 0;
  }

 private:
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::size_t used_ = 0;
};

// Tells ThreadSanitizer which CUDA thread runs, and what orders them: the begin and the end of a block, and
// barriers. Without that sanitizer nothing. The scheduler itself must not be instrumented.
class TsanThreads {
 public:
#ifdef CUDASIM_TSAN
  static constexpr bool kOn = true;
#else
  static constexpr bool kOn = false;
#endif
  void begin_block(std::size_t threads);
  void end_block();
  void begin_thread(int thread);  // on the thread's fiber, as its first and its last act
  void end_thread();
  void resume(int thread);  // on the scheduler, before it enters the thread's fiber
  void suspend();           // on the thread's fiber, before it leaves
  void release(void* barrier);
  void acquire(void* barrier);

 private:
  void* scheduler_ = nullptr;
  std::vector<void*> threads_;
  char begun_ = 0, ended_ = 0;
};

}  // namespace cudasim
