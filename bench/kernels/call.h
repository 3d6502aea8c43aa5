// One call of an op, as a network makes it, but without its data: which tensors it takes, how to make it
// again on any backend, and what it has to move and to compute at least.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace lockstep::bench {

enum class Role {
  input,
  output,   // written whole, never read
  updated,  // read and written
  scratch,  // not the op's: Call::prepare reads it
};

struct Operand {
  const char* name;  // as in kernels/backend.h
  TensorView view;   // type, layout and shape; "no tensor" where the network gives none
  Role role = Role::input;
  bool per_sample = false;    // the first dimension counts samples
  bool on_host = false;       // host memory: what the copies take
  double low = -1, high = 1;  // its values are uniform in [low, high); integers are rounded down
  // The part of it that the op has to touch: a 1x1 convolution with stride 2 reads a quarter of its input.
  double touched = 1;
  // How far a result may be off, in roundings of f32 (2^-24); 0: it must be equal. See check.h.
  double roundings = 0;
  // A result that is no sum of its own samples alone: its value in a batch that repeats one period of
  // samples, over its value in that period.
  std::function<double(std::int64_t period)> growth = nullptr;

  // The least traffic: one pass over what is touched, two where it is updated.
  double traffic() const {
    if (!view || role == Role::scratch) return 0;
    return touched * static_cast<double>(view.bytes()) * (role == Role::updated ? 2 : 1);
  }
};

using Tensors = std::vector<TensorView>;  // in the order of Call::operands

struct Call {
  const char* op;
  std::string detail;  // what tells it from other calls of the op; no commas
  std::int64_t samples = 1;
  // A result depends on the whole batch, but needs no more than this many samples to be well-conditioned.
  std::int64_t least_samples = 1;
  double flops = 0;  // 2 for a multiplication and addition; 0 for ops that only move data
  std::vector<Operand> operands = {};
  std::function<void(Backend&, Stream&, const Tensors&)> run = nullptr;
  // Makes inputs that are not just random numbers; may be empty.
  std::function<void(Backend&, Stream&, const Tensors&)> prepare = nullptr;
  std::int64_t calls = 0;  // in a training step

  // The least possible traffic of the op: nothing is read twice, however small the caches are.
  double bytes() const {
    double sum = 0;
    for (const Operand& operand : operands) sum += operand.traffic();
    return sum;
  }
};

}  // namespace lockstep::bench
