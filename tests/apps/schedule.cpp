// Learning rates against torch.optim.lr_scheduler's recursions, stepped as PyTorch steps them.
#include "apps/training/schedule.h"

#include <cmath>

#include "catch.h"

using namespace lockstep;

namespace {

Options recipe(const std::string& schedule) {
  Options options;
  options.schedule = schedule;
  options.lr = 0.1;
  options.epochs = 6;
  return options;
}

}  // namespace

TEST_CASE("constant") {
  const Schedule schedule(recipe("constant"), 10, 64);
  CHECK(schedule.learning_rate(0, 0) == 0.1);
  CHECK(schedule.learning_rate(5, 9) == 0.1);
}

TEST_CASE("step falls by gamma every step_epochs, as StepLR") {
  Options options = recipe("step");
  options.step_epochs = 2;
  options.step_gamma = 0.5;
  const Schedule schedule(options, 10, 64);
  double lr = 0.1;
  for (int epoch = 0; epoch < 6; ++epoch) {
    if (epoch > 0 && epoch % 2 == 0) lr *= 0.5;
    CHECK(schedule.learning_rate(epoch, 0) == Approx(lr).epsilon(1e-12));
    CHECK(schedule.learning_rate(epoch, 9) == Approx(lr).epsilon(1e-12));
  }
}

TEST_CASE("cosine follows CosineAnnealingLR's recursion") {
  const Schedule schedule(recipe("cosine"), 10, 64);
  const double pi = std::acos(-1.0);
  double lr = 0.1;
  for (int t = 0; t < 60; ++t) {
    INFO("step " << t);
    CHECK(schedule.learning_rate(t / 10, t % 10) == Approx(lr).epsilon(1e-9));
    // eta_min = 0: lr_{t+1} = lr_t * (1 + cos(pi (t+1) / T)) / (1 + cos(pi t / T))
    lr *= (1 + std::cos(pi * (t + 1) / 60)) / (1 + std::cos(pi * t / 60));
  }
}

TEST_CASE("warm-up rises in a line, as LinearLR from 1/w, and the cosine begins after it") {
  Options options = recipe("cosine");
  options.warmup_epochs = 0.5;
  const Schedule schedule(options, 10, 64);
  const int w = 5;
  const double start = 1.0 / w;
  for (int t = 0; t < w; ++t) {  // LinearLR(start_factor=1/w, total_iters=w-1)
    CHECK(schedule.learning_rate(0, t) == Approx(0.1 * (start + (1 - start) * t / (w - 1))));
  }
  CHECK(schedule.learning_rate(0, w) == Approx(0.1));
  const double pi = std::acos(-1.0);
  CHECK(schedule.learning_rate(3, 0) == Approx(0.05 * (1 + std::cos(pi * (30 - w) / (60.0 - w)))));
}

TEST_CASE("linear scaling is relative to a global batch of 256") {
  Options options = recipe("constant");
  options.linear_scaling = true;
  CHECK(Schedule(options, 10, 512).learning_rate(0, 0) == Approx(0.2));
  CHECK(Schedule(options, 10, 64).learning_rate(0, 0) == Approx(0.025));
}

TEST_CASE("the position is what counts, not how many steps were taken") {
  // Twice the ranks, half the steps an epoch: the same epoch has the same rate.
  const Schedule two(recipe("cosine"), 10, 64), four(recipe("cosine"), 5, 128);
  CHECK(two.learning_rate(3, 0) == four.learning_rate(3, 0));
}
