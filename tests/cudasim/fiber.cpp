#include "cudasim/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef CUDASIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif

// Saves the registers that a call preserves, and goes on with another stack.
extern "C" void cudasim_switch(void** save, void* to);
asm(R"(.text
.globl cudasim_switch
.type cudasim_switch,@function
cudasim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cudasim_switch,.-cudasim_switch
)");

namespace cudasim {
namespace {

constexpr std::size_t kStack = 64 << 10;

// What a fiber that is entered for the first time finds; there is one scheduler.
Fiber* entering = nullptr;
void (*entry)() = nullptr;

}  // namespace

Fiber::Fiber(std::size_t stagger) : stagger_(stagger % 61 * 192) {
  void* memory =
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<char*>(memory);
}

Fiber::~Fiber() {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stack_, kStack);  // a fiber may end in the middle of its functions
#endif
  munmap(stack_, kStack);
}

void Fiber::first_entry() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &entering->caller_bottom_, &entering->caller_size_);
#endif
  entry();
  std::abort();  // body leaves, it does not return
}

void Fiber::start(void (*body)()) {
  entry = body;
  // As cudasim_switch leaves a stack: six registers, then where to go on; a call aligns the stack to 16
  // less 8.
  constexpr int kRegisters = 6;
  auto* top = reinterpret_cast<void**>(stack_ + kStack - stagger_);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&Fiber::first_entry);
  for (int i = 0; i < kRegisters; ++i) *--top = nullptr;
  own_ = top;
}

void Fiber::enter() {
  entering = this;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_stack_, stack_, kStack);
#endif
  cudasim_switch(&other_, own_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
}

// Not instrumented: its frame would stay poisoned after the last time, from which it does not return.
__attribute__((no_sanitize("address"))) void Fiber::leave() {
#ifdef __SANITIZE_ADDRESS__
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, caller_bottom_, caller_size_);
#endif
  cudasim_switch(&own_, other_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, &caller_bottom_, &caller_size_);
#endif
}

#ifdef CUDASIM_TSAN
void TsanThreads::begin_block(std::size_t threads) {
  scheduler_ = __tsan_get_current_fiber();
  while (threads_.size() < threads) threads_.push_back(__tsan_create_fiber(0));
  __tsan_acquire(&ended_);
  __tsan_release(&begun_);
}
void TsanThreads::end_block() {
  __tsan_acquire(&ended_);
}
void TsanThreads::begin_thread(int thread) {
  resume(thread);
  __tsan_acquire(&begun_);
}
void TsanThreads::end_thread() {
  suspend();
}
void TsanThreads::resume(int thread) {
  __tsan_switch_to_fiber(threads_[static_cast<std::size_t>(thread)], __tsan_switch_to_fiber_no_sync);
}
void TsanThreads::suspend() {
  __tsan_release(&ended_);  // a thread that a fault leaves in the middle ends here
  __tsan_switch_to_fiber(scheduler_, __tsan_switch_to_fiber_no_sync);
}
void TsanThreads::release(void* barrier) {
  __tsan_release(barrier);
}
void TsanThreads::acquire(void* barrier) {
  __tsan_acquire(barrier);
}
#else
void TsanThreads::begin_block(std::size_t) {}
void TsanThreads::end_block() {}
void TsanThreads::begin_thread(int) {}
void TsanThreads::end_thread() {}
void TsanThreads::resume(int) {}
void TsanThreads::suspend() {}
void TsanThreads::release(void*) {}
void TsanThreads::acquire(void*) {}
#endif

}  // namespace cudasim
