// Batch norm. It has to see all of x before it can write y, so where x does not fit into a cache no
// implementation reaches the least traffic: it reads x twice (and backward x, y and dy).
#include <algorithm>

#include "bench/kernels/operands.h"
#include "bench/kernels/recorder.h"

namespace lockstep::bench {
namespace {

// Of few rows, two may lie close together, and a small variance magnifies every rounding.
constexpr std::int64_t kEnoughRows = 64;

// A handful of operations on values up to 16, plus means that are off by a rounding and divided by a
// deviation of about 1/2 (kEnoughRows); the formulas of tests/kernels with room for longer sums.
constexpr double kRoundings = 1024;

std::string describe(const BatchNormOptions& options, const TensorView& x, const TensorView& residual) {
  return x.shape.to_string() + (options.relu ? " relu" : "") + (residual ? " residual" : "");
}

std::int64_t rows_of_sample(const TensorView& x) {
  return x.numel() / x.shape[0] / x.shape[x.shape.rank() - 1];
}

std::int64_t least_samples(const TensorView& x) {
  const std::int64_t rows = rows_of_sample(x);
  return std::min(x.shape[0], (kEnoughRows + rows - 1) / rows);
}

// The running variance takes rows / (rows - 1) times the biased one. It starts from zero, so it is a
// multiple.
Operand unbiased(Operand operand, const TensorView& x) {
  operand.growth = [rows = rows_of_sample(x), samples = x.shape[0]](std::int64_t period) {
    const auto factor = [rows](std::int64_t n) {
      return static_cast<double>(n * rows) / static_cast<double>(n * rows - 1);
    };
    return factor(samples) / factor(period);
  };
  return constant(std::move(operand), 0);
}

Operand positive(Operand operand) {
  return within(std::move(operand), 0.5, 2);
}

// Ready for both backward ops, which differ in what mean and spread are.
Call backward(const char* op, const BatchNormOptions& options, const TensorView& x, const TensorView& y,
              const TensorView& dy, const TensorView& gamma, const Operand& mean, const Operand& spread,
              const TensorView& dx, const TensorView& dresidual, const TensorView& dgamma,
              const TensorView& dbeta, GradMode mode) {
  const std::int64_t n = x.shape[0];
  const double sums = kRoundings + sum_of(static_cast<double>(n * rows_of_sample(x)));
  return {
      .op = op,
      .detail = describe(options, x, dresidual) + (mode == GradMode::accumulate ? " accumulate" : ""),
      .samples = n,
      .least_samples = least_samples(x),
      .operands = {per_sample(input("x", x)), per_sample(input("y", y)), per_sample(input("dy", dy)),
                   positive(input("gamma", gamma)), mean, spread, per_sample(output("dx", dx, kRoundings)),
                   per_sample(output("dresidual", dresidual, 0)),
                   sum_over_samples(gradient("dgamma", dgamma, mode, sums), n),
                   sum_over_samples(gradient("dbeta", dbeta, mode, sums), n)}};
}

}  // namespace

// bytes: x + residual + y, and vectors: gamma, beta, saved_mean, saved_invstd once, the running statistics
// twice
void Recorder::batch_norm_forward_training(Stream&, const BatchNormOptions& options, const TensorView& x,
                                           const TensorView& gamma, const TensorView& beta,
                                           const TensorView& residual, const TensorView& running_mean,
                                           const TensorView& running_var, const TensorView& saved_mean,
                                           const TensorView& saved_invstd, const TensorView& y) {
  add({.op = "batch_norm_forward_training",
       .detail = describe(options, x, residual),
       .samples = x.shape[0],
       .least_samples = least_samples(x),
       .operands = {per_sample(input("x", x)), positive(input("gamma", gamma)), input("beta", beta),
                    per_sample(input("residual", residual)),
                    updated("running_mean", running_mean, kRoundings),
                    unbiased(updated("running_var", running_var, kRoundings), x),
                    output("saved_mean", saved_mean, kRoundings),
                    output("saved_invstd", saved_invstd, kRoundings), per_sample(output("y", y, kRoundings))},
       .run = [options](Backend& b, Stream& stream, const Tensors& t) {
         b.batch_norm_forward_training(stream, options, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]);
       }});
}

// bytes: x + residual + y and four vectors
void Recorder::batch_norm_forward_evaluation(Stream&, const BatchNormOptions& options, const TensorView& x,
                                             const TensorView& gamma, const TensorView& beta,
                                             const TensorView& residual, const TensorView& running_mean,
                                             const TensorView& running_var, const TensorView& y) {
  add({.op = "batch_norm_forward_evaluation",
       .detail = describe(options, x, residual),
       .samples = x.shape[0],
       .operands = {per_sample(input("x", x)), positive(input("gamma", gamma)), input("beta", beta),
                    per_sample(input("residual", residual)), input("running_mean", running_mean),
                    positive(input("running_var", running_var)), per_sample(output("y", y, kRoundings))},
       .run = [options](Backend& b, Stream& stream, const Tensors& t) {
         b.batch_norm_forward_evaluation(stream, options, t[0], t[1], t[2], t[3], t[4], t[5], t[6]);
       }});
}

// bytes: x + y (with relu) + dy + dx + dresidual and five vectors
void Recorder::batch_norm_backward(Stream&, const BatchNormOptions& options, const TensorView& x,
                                   const TensorView& y, const TensorView& dy, const TensorView& gamma,
                                   const TensorView& saved_mean, const TensorView& saved_invstd,
                                   const TensorView& dx, const TensorView& dresidual,
                                   const TensorView& dgamma, const TensorView& dbeta, GradMode mode) {
  Call call = backward("batch_norm_backward", options, x, y, dy, gamma,
                       within(input("saved_mean", saved_mean), -0.1, 0.1),
                       positive(input("saved_invstd", saved_invstd)), dx, dresidual, dgamma, dbeta, mode);
  call.run = [options, mode](Backend& b, Stream& stream, const Tensors& t) {
    b.batch_norm_backward(stream, options, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], mode);
  };
  add(std::move(call));
}

// bytes: as batch_norm_backward
void Recorder::batch_norm_backward_evaluation(Stream&, const BatchNormOptions& options, const TensorView& x,
                                              const TensorView& y, const TensorView& dy,
                                              const TensorView& gamma, const TensorView& running_mean,
                                              const TensorView& running_var, const TensorView& dx,
                                              const TensorView& dresidual, const TensorView& dgamma,
                                              const TensorView& dbeta, GradMode mode) {
  Call call = backward("batch_norm_backward_evaluation", options, x, y, dy, gamma,
                       within(input("running_mean", running_mean), -0.1, 0.1),
                       positive(input("running_var", running_var)), dx, dresidual, dgamma, dbeta, mode);
  call.run = [options, mode](Backend& b, Stream& stream, const Tensors& t) {
    b.batch_norm_backward_evaluation(stream, options, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8],
                                     t[9], mode);
  };
  add(std::move(call));
}

}  // namespace lockstep::bench
