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

// This backend has all compute types but f16.
inline void refuse_f16(DType type) {
  if (type == DType::f16)
    fail(ExitCode::usage, "the cpu backend does not compute in f16: use bf16, or a GPU");
}

// Calls function(T{}) with the C++ type of a compute type.
template <class Function>
void with_compute_type(DType type, const Function& function) {
  refuse_f16(type);
  type == DType::f32 ? function(float{}) : function(bfloat16{});
}

}  // namespace lockstep::cpu
