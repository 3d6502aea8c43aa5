// The learning rate: a pure function of the step, so that a resumed run cannot restart it.
//
// clang-format off
//   t < w:    lr * (t + 1) / w                                       linear warm-up (Goyal et al., 2017)
//   constant  lr
//   step      lr * gamma^floor(t / (step_epochs * steps an epoch))   torch.optim.lr_scheduler.StepLR
//   cosine    lr * (1 + cos(pi * (t - w) / (T - w))) / 2             CosineAnnealingLR with T_max = T - w
// clang-format on
// with t the step counted over the whole run, T all its steps and w those of the warm-up.
#pragma once

#include <cstdint>

#include "apps/training/options.h"

namespace lockstep {

class Schedule {
 public:
  // steps_per_epoch and global_batch: of this job. --linear-scaling multiplies lr by global_batch / 256.
  Schedule(const Options& options, std::int64_t steps_per_epoch, std::int64_t global_batch);

  // epoch and step_in_epoch rather than their sum: after a resume with another number of ranks an epoch has
  // another number of steps, and the position in the schedule stays what it was.
  double learning_rate(std::int64_t epoch, std::int64_t step_in_epoch) const;

 private:
  enum class Kind { constant, step, cosine };
  Kind kind_;
  double base_, gamma_;
  std::int64_t steps_per_epoch_, fall_steps_, warmup_steps_, total_steps_;
};

}  // namespace lockstep
