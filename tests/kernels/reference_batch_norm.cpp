#include <cmath>

#include "kernels/host_tensor.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// Two channels, four rows. Channel 0: 1 2 3 4 (mean 2.5, variance 1.25); channel 1: 10 10 20 20 (15, 25).
const Values kX = {1, 10, 2, 10, 3, 20, 4, 20};
const Shape kShape{4, 2};

struct Parameters {
  TestTensor gamma, beta, running_mean, running_var, saved_mean, saved_invstd, dgamma, dbeta;
  Parameters(const Reference& r, std::int64_t c, const Values& g, const Values& b)
      : gamma(r.flat({c}, g)),
        beta(r.flat({c}, b)),
        running_mean(r.flat({c}, Values(static_cast<std::size_t>(c), 0.0))),
        running_var(r.flat({c}, Values(static_cast<std::size_t>(c), 1.0))),
        saved_mean(r.flat({c})),
        saved_invstd(r.flat({c})),
        dgamma(r.flat({c})),
        dbeta(r.flat({c})) {}
};

void forward(const Reference& r, const BatchNormOptions& options, const TestTensor& x, const Parameters& p,
             const TensorView& residual, const TestTensor& y) {
  r->batch_norm_forward_training(*r.stream, options, x, p.gamma, p.beta, residual, p.running_mean,
                                 p.running_var, p.saved_mean, p.saved_invstd, y);
}

}  // namespace

TEST_CASE("batch norm: statistics, running averages and output by hand") {
  const Reference r;
  const BatchNormOptions options{.epsilon = 0.0f, .momentum = 0.25f, .relu = false};
  const Parameters p(r, 2, {2, 1}, {1, -1});
  const auto x = r.flat(kShape, kX);
  const auto y = r.flat(kShape);
  forward(r, options, x, p, {}, y);
  const double s = 1 / std::sqrt(1.25);
  CHECK(compare({2.5, 15}, p.saved_mean.read(), 0, 1e-7) == "");
  CHECK(compare({s, 0.2}, p.saved_invstd.read(), 0, 1e-7) == "");
  // Three quarters of (0, 1), a quarter of the batch, whose variance counts unbiased: 1.25 * 4/3 and 25 *
  // 4/3.
  CHECK(compare({0.625, 3.75}, p.running_mean.read(), 0, 1e-7) == "");
  CHECK(compare({0.75 + 1.25 / 3, 0.75 + 25.0 / 3}, p.running_var.read(), 0, 1e-7) == "");
  const Values expected = {-3 * s + 1, -2, -s + 1, -2, s + 1, 0, 3 * s + 1, 0};
  CHECK(compare(expected, y.read(), 1e-6, 1e-6) == "");
}

TEST_CASE("batch norm: residual is added before ReLU, and ReLU keeps a NaN") {
  const Reference r;
  const BatchNormOptions options{.epsilon = 0.0f, .momentum = 0.1f, .relu = true};
  const Parameters p(r, 2, {1, 1}, {0, 0});
  const auto residual = r.flat(kShape, {9, 0, 0, 2, -9, -2, kNaN, 0.5});
  const auto y = r.flat(kShape);
  forward(r, options, r.flat(kShape, kX), p, residual, y);
  const double s = 1 / std::sqrt(1.25);
  CHECK(compare({9 - 1.5 * s, 0, 0, 1, 0, 0, kNaN, 1.5}, y.read(), 1e-6, 1e-6) == "");
}

TEST_CASE("batch norm: evaluation uses the running statistics and leaves them alone") {
  const Reference r;
  const BatchNormOptions options{.epsilon = 0.25f, .momentum = 0.1f, .relu = true};
  const auto gamma = r.flat({1}, {3}), beta = r.flat({1}, {1});
  const auto mean = r.flat({1}, {10}), variance = r.flat({1}, {3.75});  // deviation with epsilon: 2
  const auto x = r.flat({3, 1}, {12, 10, 8});
  const auto y = r.flat({3, 1});
  r->batch_norm_forward_evaluation(*r.stream, options, x, gamma, beta, {}, mean, variance, y);
  CHECK(y.read() == Values{4, 1, 0});
  CHECK(mean.read() == Values{10});
  CHECK(variance.read() == Values{3.75});

  // Backward with constant statistics: g = (1, 1, 0) by the mask, dx = g * 3/2, dgamma = 1*1 + 1*0.
  const auto dy = r.flat({3, 1}, {1, 1, 5});
  const auto dx = r.flat({3, 1}), dresidual = r.flat({3, 1});
  const auto dgamma = r.flat({1}, {100}), dbeta = r.flat({1}, {200});
  r->batch_norm_backward_evaluation(*r.stream, options, x, y, dy, gamma, mean, variance, dx, dresidual,
                                    dgamma, dbeta, GradMode::accumulate);
  CHECK(dx.read() == Values{1.5, 1.5, 0});
  CHECK(dresidual.read() == Values{1, 1, 0});
  CHECK(dgamma.read() == Values{101});
  CHECK(dbeta.read() == Values{202});
}

TEST_CASE("batch norm: a large mean does not cancel") {
  const Reference r;
  // Deviations of one step of f32 at 2^20 (0.125): the one-pass variance E[x^2] - mean^2 would be noise.
  const double mean = 0x1p20;
  const Parameters p(r, 1, {1}, {0});
  const auto y = r.flat({4, 1});
  forward(r, {.epsilon = 0.0f}, r.flat({4, 1}, {mean - 0.125, mean + 0.125, mean - 0.125, mean + 0.125}), p,
          {}, y);
  CHECK(y.read() == Values{-1, 1, -1, 1});
  CHECK(p.saved_mean.read() == Values{mean});
  CHECK(p.saved_invstd.read() == Values{8});
}

TEST_CASE("batch norm: one row a channel is refused, two are not") {
  const Reference r;
  const Parameters p(r, 2, {1, 1}, {0, 0});
  const auto one = r.image({1, 1, 1, 2}, {1, 2}), y = r.image({1, 1, 1, 2});
  CHECK_THROWS_AS(forward(r, {}, one, p, {}, y), Error);
  CHECK(p.running_mean.read() == Values{0, 0});  // untouched
  const auto two = r.image({2, 1, 1, 2}, {1, 2, 3, 2}), y2 = r.image({2, 1, 1, 2});
  forward(r, {}, two, p, {}, y2);
  // Channel 0: mean 2, variance 1 (+ 1e-5); channel 1 is constant, and epsilon keeps it from 0/0.
  const double s = 1 / std::sqrt(1.00001);
  CHECK(compare({-s, 0, s, 0}, y2.read(), 1e-7, 1e-7) == "");
  CHECK(compare({0.9 + 0.1 * 2, 0.9}, p.running_var.read(), 1e-7, 1e-7) == "");
}

TEST_CASE("batch norm: gradients equal finite differences") {
  const Reference r;
  const bool relu = GENERATE(false, true);
  const Shape shape{3, 2, 2, 3};
  const std::int64_t n = shape.numel();
  const BatchNormOptions options{.epsilon = 1e-3f, .momentum = 0.1f, .relu = relu};
  const Values x = uniform(n, -1, 1, 1), residual = uniform(n, -1, 1, 2), dy = uniform(n, -1, 1, 3);
  const Values gamma = {0.5, 1.5, -1}, beta = {0.1, -0.2, 0.3};
  const auto output = [&](const Values& x_at, const Values& gamma_at, const Values& beta_at,
                          const Values& res_at) {
    const Parameters p(r, 3, gamma_at, beta_at);
    const auto y = r.image(shape);
    forward(r, options, r.image(shape, x_at), p, r.image(shape, res_at), y);
    return y.read();
  };
  const Parameters p(r, 3, gamma, beta);
  const auto xt = r.image(shape, x), rt = r.image(shape, residual), y = r.image(shape);
  forward(r, options, xt, p, rt, y);
  const auto dx = r.image(shape), dresidual = r.image(shape);
  r->batch_norm_backward(*r.stream, options, xt, y, r.image(shape, dy), p.gamma, p.saved_mean, p.saved_invstd,
                         dx, dresidual, p.dgamma, p.dbeta, GradMode::overwrite);

  // An output that is zero on one side of the step and not on the other has crossed the kink of ReLU.
  using Output = std::function<Values(const Values&)>;
  const auto check = [&](const Values& at, const Values& gradient, const Output& of) {
    check_gradient(
        at, gradient, [&](const Values& v) { return dot(of(v), dy); }, 2e-3,
        [&](const Values& above, const Values& below) {
          const Values a = of(above), b = of(below);
          for (std::size_t i = 0; relu && i < a.size(); ++i) {
            if ((a[i] > 0) != (b[i] > 0)) return false;
          }
          return true;
        });
  };
  check(x, dx.read(), [&](const Values& v) { return output(v, gamma, beta, residual); });
  check(residual, dresidual.read(), [&](const Values& v) { return output(x, gamma, beta, v); });
  check(gamma, p.dgamma.read(), [&](const Values& v) { return output(x, v, beta, residual); });
  check(beta, p.dbeta.read(), [&](const Values& v) { return output(x, gamma, v, residual); });
}
