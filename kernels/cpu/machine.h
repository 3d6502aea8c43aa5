// What an op of this backend runs on: its threads, its scratch memory and its primitives.
#pragma once

#include "core/error.h"
#include "kernels/cpu/primitives.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/workspace.h"

namespace lockstep::cpu {

struct Machine {
  explicit Machine(int thread_count) : threads(thread_count), primitives(workspace, threads) {}

  Threads threads;
  Workspace workspace;
  Primitives primitives;
  bool fast_bf16 = has_fast_bf16();
};

// Calls function(T{}) with the C++ type of a compute type.
template <class Function>
void with_compute_type(DType type, const Function& function) {
  if (type == DType::f32) return function(float{});
  if (type == DType::bf16) return function(bfloat16{});
  fail(ExitCode::internal, "the cpu backend does not compute in {}", name_of(type));
}

}  // namespace lockstep::cpu
