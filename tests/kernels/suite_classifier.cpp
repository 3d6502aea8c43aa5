#include "catch.h"
#include "kernels/backend_suite.h"
#include "kernels/twins.h"

namespace lockstep::suite {
namespace {

using namespace test;

struct LinearShape {
  std::int64_t n, in, out;
};

constexpr LinearShape kLinear[] = {{1, 1, 1},     {3, 33, 10},   {2, 100, 65}, {5, 3, 33},  {33, 512, 10},
                                   {4, 64, 1000}, {2, 2048, 65}, {3, 1, 2048}, {130, 65, 3}};

void linear_case(Twins& twins, const LinearShape& s, DType type, bool tf32) {
  INFO("linear n " << s.n << " in " << s.in << " out " << s.out << " " << name_of(type));
  const Pair x = twins.uniform(type, Layout::flat, {s.n, s.in});
  const Pair w = twins.uniform(type, Layout::flat, {s.out, s.in});
  const Pair bias = twins.uniform(DType::f32, Layout::flat, {s.out});
  const Pair y = twins.poisoned(type, Layout::flat, {s.n, s.out});
  const Pair dy = twins.uniform(type, Layout::flat, {s.n, s.out});
  const Pair dx = twins.poisoned(type, Layout::flat, {s.n, s.in});
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.linear_forward(stream, x[i], w[i], bias[i], y[i]);
    b.linear_backward_data(stream, dy[i], w[i], dx[i]);
  });
  const auto sum_of = [](std::int64_t terms) {
    return Tolerance{kUnit * static_cast<double>(terms + 2), 2 * kUnit};
  };
  const auto products = [&](std::int64_t terms) {
    return tf32 ? tf32_products(terms, sum_of(terms)) : sum_of(terms);
  };
  check_equal("y", y, rounded(type, products(s.in)));
  check_equal("dx", dx, rounded(type, products(s.out)));
  for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
    const bool add = mode == GradMode::accumulate;
    const Pair dw = add ? twins.uniform(DType::f32, Layout::flat, {s.out, s.in})
                        : twins.poisoned(DType::f32, Layout::flat, {s.out, s.in});
    const Pair dbias = add ? twins.uniform(DType::f32, Layout::flat, {s.out})
                           : twins.poisoned(DType::f32, Layout::flat, {s.out});
    twins.run([&](Backend& b, Stream& stream, int i) {
      b.linear_backward_weight(stream, x[i], dy[i], dw[i], dbias[i], mode);
    });
    check_equal(add ? "dw accumulated" : "dw overwritten", dw, products(s.n));
    check_equal(add ? "dbias accumulated" : "dbias overwritten", dbias, sum_of(s.n));
  }
}

// Logits within `range` of zero: the exponent's argument is off by about u * range, and so is the
// probability, in relative terms; the loss adds up values of that error.
void cross_entropy_case(Twins& twins, std::int64_t n, std::int64_t classes, double range, float smoothing,
                        DType type) {
  INFO("cross entropy n " << n << " classes " << classes << " range " << range << " smoothing " << smoothing
                          << " " << name_of(type));
  const Shape shape{n, classes};
  const Pair logits = twins.uniform(type, Layout::flat, shape, -range, range);
  Values label_values = uniform(n, 0, static_cast<double>(classes), static_cast<std::uint64_t>(n + classes));
  for (double& label : label_values) label = std::floor(label);
  const Pair labels = twins.values(DType::i32, Layout::flat, {n}, label_values);
  const Pair loss = twins.poisoned(DType::f32, Layout::flat, {1});
  const Pair correct = twins.poisoned(DType::i32, Layout::flat, {1});
  const Pair dlogits = twins.poisoned(type, Layout::flat, shape);
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.softmax_cross_entropy(stream, logits[i], labels[i], smoothing, {}, loss[i], correct[i], dlogits[i]);
  });
  const double relative = kUnit * (16 + 8 * range);
  check_equal("loss", loss, {relative, relative});
  check_equal("correct", correct, kExact);
  check_equal("dlogits", dlogits, rounded(type, {relative / static_cast<double>(n), relative}));

  const Pair loss_only = twins.poisoned(DType::f32, Layout::flat, {1});
  const Pair correct_only = twins.poisoned(DType::i32, Layout::flat, {1});
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.softmax_cross_entropy(stream, logits[i], labels[i], smoothing, {}, loss_only[i], correct_only[i], {});
  });
  CHECK(compare(loss.actual(), loss_only.actual(), kExact) == "");
  CHECK(compare(correct.actual(), correct_only.actual(), kExact) == "");

  const Pair scale = twins.values(DType::f32, Layout::flat, {1}, {1024});
  const Pair scaled = twins.poisoned(type, Layout::flat, shape);
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.softmax_cross_entropy(stream, logits[i], labels[i], smoothing, scale[i], loss_only[i], correct_only[i],
                            scaled[i]);
  });
  check_equal("scaled dlogits", scaled, rounded(type, {1024 * relative / static_cast<double>(n), relative}));
  CHECK(compare(loss.actual(), loss_only.actual(), kExact) == "");
}

// The first of equal logits counts; a row with a NaN is wrong, and its loss is NaN.
void cross_entropy_ties_and_nan(Twins& twins, DType type) {
  INFO("cross entropy with ties and NaN, " << name_of(type));
  const double nan = std::nan("");
  const Pair logits = twins.values(type, Layout::flat, {4, 3}, {2, 2, 1, 1, 2, 2, 0, nan, 1, nan, 0, 0});
  for (const int rows : {2, 4}) {
    const Pair labels = twins.values(DType::i32, Layout::flat, {4}, {0, 2, 2, 0});
    const Pair loss = twins.poisoned(DType::f32, Layout::flat, {1});
    const Pair correct = twins.poisoned(DType::i32, Layout::flat, {1});
    twins.run([&](Backend& b, Stream& stream, int i) {
      b.softmax_cross_entropy(stream, logits[i].first(rows), labels[i].first(rows), 0.1f, {}, loss[i],
                              correct[i], {});
    });
    check_equal("loss", loss, {64 * kUnit, 64 * kUnit});
    check_equal("correct", correct, kExact);
  }
}

}  // namespace

void linear(Backend& tested, const Arithmetic& arithmetic) {
  Twins twins(tested);
  for (const DType type : arithmetic.types) {
    for (const LinearShape& shape : kLinear) linear_case(twins, shape, type, arithmetic.tf32);
  }
}

void softmax_cross_entropy(Backend& tested, const Arithmetic& arithmetic) {
  Twins twins(tested);
  for (const DType type : arithmetic.types) {
    for (const float smoothing : {0.0f, 0.1f}) {
      for (const double range : {3.0, 90.0}) {
        cross_entropy_case(twins, 1, 10, range, smoothing, type);
        cross_entropy_case(twins, 5, 3, range, smoothing, type);
        cross_entropy_case(twins, 33, 65, range, smoothing, type);
        cross_entropy_case(twins, 4, 1000, range, smoothing, type);
        cross_entropy_case(twins, 2, 1, range, smoothing, type);
        cross_entropy_case(twins, 1, 2048, range, smoothing, type);
      }
    }
    cross_entropy_ties_and_nan(twins, type);
  }
}

}  // namespace lockstep::suite
