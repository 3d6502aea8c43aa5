#include <algorithm>
#include <cmath>
#include <span>

#include "catch.h"
#include "kernels/backend_suite.h"
#include "kernels/twins.h"

namespace lockstep::suite {
namespace {

using namespace test;

struct Case {
  Shape shape;  // [..., C]
  double mean;  // of x, whose deviation is about 1
};

const Case kCases[] = {
    {{2, 1}, 0},           {{2, 1, 1, 3}, 0},      {{3, 33}, 0},         {{1, 5, 7, 65}, 0},
    {{2, 2, 2, 100}, 0},   {{4, 8, 8, 64}, 0},     {{5, 5, 7, 16}, 0},   {{2, 3, 3, 257}, 0},
    {{32, 1, 1, 512}, 0},  {{8, 2, 2, 128}, 0},    {{3, 32, 32, 4}, 0},  {{3, 16, 15, 33}, 0},
    {{4, 5, 7, 33}, 1000}, {{2, 16, 16, 64}, 300}, {{2, 1, 1, 2048}, 0}, {{5, 17, 23, 1}, 0},
};

struct Channels {
  Pair gamma, beta, running_mean, running_var, saved_mean, saved_invstd, dgamma, dbeta;

  Channels(Twins& twins, std::int64_t c)
      : gamma(twins.uniform(DType::f32, Layout::flat, {c}, 0.5, 2)),
        beta(twins.uniform(DType::f32, Layout::flat, {c})),
        running_mean(twins.uniform(DType::f32, Layout::flat, {c})),
        running_var(twins.uniform(DType::f32, Layout::flat, {c}, 0.25, 4)),
        saved_mean(twins.poisoned(DType::f32, Layout::flat, {c})),
        saved_invstd(twins.poisoned(DType::f32, Layout::flat, {c})),
        dgamma(twins.poisoned(DType::f32, Layout::flat, {c})),
        dbeta(twins.poisoned(DType::f32, Layout::flat, {c})) {}
};

std::int64_t channels_of(const Shape& shape) {
  return shape[shape.rank() - 1];
}
std::int64_t rows_of(const Shape& shape) {
  return shape.numel() / channels_of(shape);
}
Layout layout_of(const Shape& shape) {
  return shape.rank() == 4 ? Layout::nhwc : Layout::flat;
}
double largest(const Values& values) {
  return *std::max_element(values.begin(), values.end());
}

Pair input(Twins& twins, DType type, const Case& c) {
  // bf16 holds a mean of 1000 only in steps of 4, f16 in steps of 1/2: their large means are smaller, with
  // the same cancellation.
  const double mean = type == DType::bf16 ? c.mean / 50 : type == DType::f16 ? c.mean / 6 : c.mean;
  return twins.uniform(type, layout_of(c.shape), c.shape, mean - 1.7, mean + 1.7);
}

// The forward formula is a handful of operations on values up to gamma * |xhat| + |beta| + |residual| < 16:
// 64 u. A mean that is rounded to f32 is off by u times the largest |x|, which gamma * invstd magnifies (two
// rows may lie close together, and then invstd is large).
Tolerance forward_tolerance(double largest_x, double largest_invstd) {
  return {kUnit * (64 + 4 * largest_x * largest_invstd), 4 * kUnit};
}

enum class Overlap { none, with_x, with_second };  // of y; second: with the residual

void forward_training(Twins& twins, const Case& c, DType type, bool relu, bool residual, Overlap overlap) {
  INFO("training forward, relu " << relu << ", residual " << residual << ", overlap "
                                 << static_cast<int>(overlap));
  const BatchNormOptions options{.epsilon = 1e-5f, .momentum = 0.1f, .relu = relu};
  Channels v(twins, channels_of(c.shape));
  const Pair x = input(twins, type, c);
  const Pair r = twins.uniform(type, layout_of(c.shape), c.shape);
  const Pair separate = twins.poisoned(type, layout_of(c.shape), c.shape);
  const Pair& y = overlap == Overlap::with_x ? x : overlap == Overlap::with_second ? r : separate;
  twins.run([&](Backend& b, Stream& stream, int i) {
    // The reference never overlaps, so an overlap that goes wrong shows.
    b.batch_norm_forward_training(stream, options, x[i], v.gamma[i], v.beta[i],
                                  residual ? r[i] : TensorView{}, v.running_mean[i], v.running_var[i],
                                  v.saved_mean[i], v.saved_invstd[i], i == 0 ? separate[i] : y[i]);
  });
  const double invstd = largest(v.saved_invstd.expected());
  const double mean_room = kUnit * (8 + 2 * std::abs(c.mean));
  CHECK(compare(separate.expected(), y.actual(), rounded(type, forward_tolerance(c.mean + 2, invstd))) == "");
  check_equal("saved_mean", v.saved_mean, {mean_room, 2 * kUnit});
  // A wrong mean changes the variance only in second order; the sum of squares has rows roundings.
  check_equal("saved_invstd", v.saved_invstd, {0, 64 * kUnit});
  check_equal("running_mean", v.running_mean, {mean_room, 4 * kUnit});
  check_equal("running_var", v.running_var, {8 * kUnit, 64 * kUnit});
}

void forward_evaluation(Twins& twins, const Case& c, DType type, bool relu, bool residual, Overlap overlap) {
  INFO("evaluation forward, relu " << relu << ", residual " << residual);
  const BatchNormOptions options{.epsilon = 1e-5f, .momentum = 0.1f, .relu = relu};
  Channels v(twins, channels_of(c.shape));
  const Pair x = twins.uniform(type, layout_of(c.shape), c.shape);
  const Pair r = twins.uniform(type, layout_of(c.shape), c.shape);
  const Pair separate = twins.poisoned(type, layout_of(c.shape), c.shape);
  const Pair& y = overlap == Overlap::with_x ? x : overlap == Overlap::with_second ? r : separate;
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.batch_norm_forward_evaluation(stream, options, x[i], v.gamma[i], v.beta[i],
                                    residual ? r[i] : TensorView{}, v.running_mean[i], v.running_var[i],
                                    i == 0 ? separate[i] : y[i]);
  });
  CHECK(compare(separate.expected(), y.actual(), rounded(type, {64 * kUnit, 4 * kUnit})) == "");
  CHECK(compare(v.running_mean.expected(), v.running_mean.actual(), kExact) == "");
  CHECK(compare(v.running_var.expected(), v.running_var.actual(), kExact) == "");
}

// What a backward op takes besides dy, computed by the reference alone and the same on both sides, so that
// only the backward op's own errors are compared.
struct BackwardInputs {
  BatchNormOptions options;
  bool evaluation;
  Values x;
  double largest_invstd;
  Pair gamma, mean, spread, y;  // spread: saved_invstd, or in evaluation running_var
};

BackwardInputs backward_inputs(Twins& twins, const Case& c, DType type, bool relu, bool evaluation) {
  const BatchNormOptions options{.epsilon = 1e-5f, .momentum = 0.1f, .relu = relu};
  const std::int64_t channels = channels_of(c.shape);
  const auto vector = [&](const Values& values) {
    return twins.values(DType::f32, Layout::flat, {channels}, values);
  };
  Channels v(twins, channels);
  const Pair x = input(twins, type, c), y = twins.poisoned(type, layout_of(c.shape), c.shape);
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.batch_norm_forward_training(stream, options, x[i], v.gamma[i], v.beta[i], {}, v.running_mean[i],
                                  v.running_var[i], v.saved_mean[i], v.saved_invstd[i], y[i]);
  });
  const Values invstd = v.saved_invstd.expected();
  return {options,
          evaluation,
          x.expected(),
          evaluation ? 2.0 : largest(invstd),
          vector(v.gamma.expected()),
          vector(v.saved_mean.expected()),
          vector(evaluation ? test::uniform(channels, 0.25, 4, 7) : invstd),
          twins.values(type, layout_of(c.shape), c.shape, y.expected())};
}

// Which tensors are one in the tested call. The reference's never are.
struct BackwardOverlap {
  bool dx_is_x, dx_is_dy, dresidual_is_dy;
};

constexpr BackwardOverlap kBackwardOverlaps[] = {{false, false, false},
                                                 {true, false, false},
                                                 {false, true, false},
                                                 {false, false, true},
                                                 {true, false, true}};

void backward(Twins& twins, const Case& c, DType type, const BackwardInputs& in, bool with_residual,
              const BackwardOverlap& overlap, GradMode mode) {
  INFO("backward, relu " << in.options.relu << ", residual " << with_residual << ", evaluation "
                         << in.evaluation << ", dx is x " << overlap.dx_is_x << ", dx is dy "
                         << overlap.dx_is_dy << ", dresidual is dy " << overlap.dresidual_is_dy);
  const Layout layout = layout_of(c.shape);
  const auto parameter = [&] {
    const Shape shape{channels_of(c.shape)};
    return mode == GradMode::accumulate ? twins.uniform(DType::f32, Layout::flat, shape)
                                        : twins.poisoned(DType::f32, Layout::flat, shape);
  };
  const Pair x = twins.values(type, layout, c.shape, in.x), dy = twins.uniform(type, layout, c.shape);
  const Pair separate_dx = twins.poisoned(type, layout, c.shape);
  const Pair separate_dresidual = twins.poisoned(type, layout, c.shape);
  const Pair& dx = overlap.dx_is_x ? x : overlap.dx_is_dy ? dy : separate_dx;
  const Pair& dresidual = overlap.dresidual_is_dy ? dy : separate_dresidual;
  const Pair dgamma = parameter(), dbeta = parameter();
  twins.run([&](Backend& b, Stream& stream, int i) {
    const TensorView dr = with_residual ? (i == 0 ? separate_dresidual : dresidual)[i] : TensorView{};
    const TensorView y = in.options.relu ? in.y[i] : TensorView{};
    const TensorView& to = (i == 0 ? separate_dx : dx)[i];
    if (in.evaluation) {
      b.batch_norm_backward_evaluation(stream, in.options, x[i], y, dy[i], in.gamma[i], in.mean[i],
                                       in.spread[i], to, dr, dgamma[i], dbeta[i], mode);
    } else {
      b.batch_norm_backward(stream, in.options, x[i], y, dy[i], in.gamma[i], in.mean[i], in.spread[i], to, dr,
                            dgamma[i], dbeta[i], mode);
    }
  });
  // dbeta sums rows values below 1, dgamma rows values below |xhat| < 4 (8 where evaluation divides by
  // another deviation). dx = gamma * invstd * (three terms up to 1 + 1 + 16), the last two from those sums.
  const double rows = static_cast<double>(rows_of(c.shape));
  const double far = in.evaluation ? 8 : 4;
  const Tolerance gradient{kUnit * 2 * in.largest_invstd * (32 + 4 * far * far), 8 * kUnit};
  CHECK(compare(separate_dx.expected(), dx.actual(), rounded(type, gradient)) == "");
  check_equal("dbeta", dbeta, {kUnit * (8 + rows), 2 * kUnit});
  check_equal("dgamma", dgamma, {kUnit * (8 + rows) * far, 4 * kUnit});
  if (with_residual) CHECK(compare(separate_dresidual.expected(), dresidual.actual(), kExact) == "");
}

// What overlaps and whether gradients are added to have nothing to do with each other: each overlap meets one
// mode with ReLU and the other without.
void backward_cases(Twins& twins, const Case& c, DType type, bool relu) {
  for (const bool evaluation : {false, true}) {
    const BackwardInputs in = backward_inputs(twins, c, type, relu, evaluation);
    for (const bool residual : {false, true}) {
      bool accumulate = relu;
      for (const BackwardOverlap& overlap : kBackwardOverlaps) {
        if (overlap.dresidual_is_dy && !residual) continue;
        backward(twins, c, type, in, residual, overlap,
                 accumulate ? GradMode::accumulate : GradMode::overwrite);
        accumulate = !accumulate;
      }
    }
  }
}

}  // namespace

void batch_norm(Backend& tested, const Arithmetic& arithmetic, std::size_t shapes) {
  Twins twins(tested);
  for (const DType type : arithmetic.types) {
    for (const Case& c : std::span(kCases).first(shapes)) {
      INFO("x " << c.shape.to_string() << " " << name_of(type) << ", mean " << c.mean);
      for (const bool relu : {false, true}) {
        for (const bool residual : {false, true}) {
          for (const Overlap overlap : {Overlap::none, Overlap::with_x, Overlap::with_second}) {
            if (overlap == Overlap::with_second && !residual) continue;
            forward_training(twins, c, type, relu, residual, overlap);
            forward_evaluation(twins, c, type, relu, residual, overlap);
          }
        }
        backward_cases(twins, c, type, relu);
      }
    }
  }
}

}  // namespace lockstep::suite
