#include "apps/training/schedule.h"

#include <cmath>
#include <numbers>

namespace lockstep {

Schedule::Schedule(const Options& options, std::int64_t steps_per_epoch, std::int64_t global_batch)
    : kind_(options.schedule == "constant" ? Kind::constant
            : options.schedule == "step"   ? Kind::step
                                           : Kind::cosine),
      base_(options.linear_scaling ? options.lr * static_cast<double>(global_batch) / 256.0 : options.lr),
      gamma_(options.step_gamma),
      steps_per_epoch_(steps_per_epoch),
      fall_steps_(options.step_epochs * steps_per_epoch),
      warmup_steps_(std::llround(options.warmup_epochs * static_cast<double>(steps_per_epoch))),
      total_steps_(options.epochs * steps_per_epoch) {}

double Schedule::learning_rate(std::int64_t epoch, std::int64_t step_in_epoch) const {
  const std::int64_t t = epoch * steps_per_epoch_ + step_in_epoch;
  if (t < warmup_steps_) return base_ * static_cast<double>(t + 1) / static_cast<double>(warmup_steps_);
  switch (kind_) {
    case Kind::constant:
      return base_;
    case Kind::step: {
      const std::int64_t falls = t / fall_steps_;
      return base_ * std::pow(gamma_, static_cast<double>(falls));
    }
    case Kind::cosine:
      break;
  }
  const auto falling = static_cast<double>(total_steps_ - warmup_steps_);
  return base_ * 0.5 * (1.0 + std::cos(std::numbers::pi * static_cast<double>(t - warmup_steps_) / falling));
}

}  // namespace lockstep
