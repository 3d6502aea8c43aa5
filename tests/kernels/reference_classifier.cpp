#include <cmath>

#include "kernels/host_tensor.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("linear: forward and gradients by hand") {
  const Reference r;
  const auto x = r.flat({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto w = r.flat({2, 3}, {1, 0, -1, 2, 1, 0});
  const auto y = r.flat({2, 2});
  r->linear_forward(*r.stream, x, w, r.flat({2}, {10, 20}), y);
  CHECK(y.read() == Values{8, 24, 8, 33});
  const auto dy = r.flat({2, 2}, {1, 2, 3, -1});
  const auto dx = r.flat({2, 3});
  r->linear_backward_data(*r.stream, dy, w, dx);
  CHECK(dx.read() == Values{5, 2, -1, 1, -1, -3});
  const auto dw = r.flat({2, 3}), dbias = r.flat({2});
  r->linear_backward_weight(*r.stream, x, dy, dw, dbias, GradMode::overwrite);
  CHECK(dw.read() == Values{13, 17, 21, -2, -1, 0});
  CHECK(dbias.read() == Values{4, 1});
  r->linear_backward_weight(*r.stream, x, dy, dw, dbias, GradMode::accumulate);
  CHECK(dw.read() == Values{26, 34, 42, -4, -2, 0});
  CHECK(dbias.read() == Values{8, 2});
}

namespace {

struct Outcome {
  double loss, correct;
  Values dlogits;
};

Outcome cross_entropy(const Reference& r, const Shape& shape, const Values& logits, const Values& labels,
                      float smoothing, DType type = DType::f32) {
  const auto loss = r.flat({1}), correct = r.flat({1}, {}, DType::i32), dlogits = r.flat(shape, {}, type);
  r->softmax_cross_entropy(*r.stream, r.flat(shape, logits, type), r.flat({shape[0]}, labels, DType::i32),
                           smoothing, {}, loss, correct, dlogits);
  return {loss.read()[0], correct.read()[0], dlogits.read()};
}

}  // namespace

TEST_CASE("cross entropy: by hand") {
  const Reference r;
  // Row 0: softmax (1/4, 3/4); row 1: (1/2, 1/2). Labels 1 and 0.
  const Outcome o = cross_entropy(r, {2, 2}, {0, std::log(3.0), 5, 5}, {1, 0}, 0.0f);
  CHECK(o.loss == Approx((-std::log(0.75) - std::log(0.5)) / 2));
  CHECK(o.correct == 2);  // the tie counts for the first
  CHECK(compare({0.125, -0.125, -0.25, 0.25}, o.dlogits, 1e-7, 1e-6) == "");
}

TEST_CASE("cross entropy: label smoothing spreads the target over all classes") {
  const Reference r;
  // Smoothing 0.2 over two classes: targets 0.1 and 0.9.
  const Outcome o = cross_entropy(r, {1, 2}, {0, std::log(3.0)}, {1}, 0.2f);
  CHECK(o.loss == Approx(-0.1 * std::log(0.25) - 0.9 * std::log(0.75)));
  CHECK(compare({0.25 - 0.1, 0.75 - 0.9}, o.dlogits, 1e-7, 1e-6) == "");
}

TEST_CASE("cross entropy: large logits do not overflow, an impossible class does not make NaN") {
  const Reference r;
  const Outcome large = cross_entropy(r, {1, 3}, {1000, 998, -1000}, {0}, 0.0f);
  CHECK(large.loss == Approx(std::log1p(std::exp(-2.0))));
  const Outcome impossible = cross_entropy(r, {1, 3}, {0, -kInfinity, 0}, {2}, 0.0f);
  CHECK(impossible.loss == Approx(std::log(2.0)));
  CHECK(compare({0.5, 0, -0.5}, impossible.dlogits, 1e-7, 1e-7) == "");
}

TEST_CASE("cross entropy: a NaN row has a NaN loss and is never correct") {
  const Reference r;
  for (const int position : {0, 1, 2}) {
    Values logits = {3, 2, 1};
    logits[static_cast<std::size_t>(position)] = kNaN;
    const Outcome o = cross_entropy(r, {1, 3}, logits, {0}, 0.0f);
    CHECK(std::isnan(o.loss));
    CHECK(o.correct == 0);
  }
}

TEST_CASE("cross entropy: gradient equals finite differences") {
  const Reference r;
  const float smoothing = GENERATE(0.0f, 0.1f);
  const Values logits = uniform(20, -2, 2, 1), labels = {0, 4, 2, 2};
  const auto loss = [&](const Values& at) { return cross_entropy(r, {4, 5}, at, labels, smoothing).loss; };
  check_gradient(logits, cross_entropy(r, {4, 5}, logits, labels, smoothing).dlogits, loss, 1e-4);
}

TEST_CASE("cross entropy: a label outside the classes is an internal error") {
  const Reference r;
  CHECK_THROWS_AS(cross_entropy(r, {1, 3}, {0, 0, 0}, {3}, 0.0f), Error);
  CHECK_THROWS_AS(cross_entropy(r, {1, 3}, {0, 0, 0}, {-1}, 0.0f), Error);
}
