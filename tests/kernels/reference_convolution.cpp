#include "kernels/host_tensor.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("convolution: 1x1 is a matrix product") {
  const Reference r;
  const ConvShape s{.n = 1, .h = 1, .w = 2, .c_in = 2, .c_out = 3};
  // Pixels (1,2) and (3,4); filters (1,0), (0,1), (1,-1).
  const auto x = r.image({1, 1, 2, 2}, {1, 2, 3, 4});
  const auto w = r.weight({3, 1, 1, 2}, {1, 0, 0, 1, 1, -1});
  const auto y = r.image({1, 1, 2, 3});
  r->conv2d_forward(*r.stream, s, x, w, y);
  CHECK(y.read() == Values{1, 2, -1, 3, 4, -1});

  // dx = dy w: (1,1,1) -> (1+0+1, 0+1-1); (2,0,-1) -> (2+0-1, 0+0+1).
  const auto dy = r.image({1, 1, 2, 3}, {1, 1, 1, 2, 0, -1});
  const auto dx = r.image({1, 1, 2, 2});
  r->conv2d_backward_data(*r.stream, s, dy, w, dx, GradMode::overwrite);
  CHECK(dx.read() == Values{2, 0, 1, 1});
  r->conv2d_backward_data(*r.stream, s, dy, w, dx, GradMode::accumulate);
  CHECK(dx.read() == Values{4, 0, 2, 2});

  // dw[k] = sum over pixels of dy[k] * x: k=0: 1*(1,2) + 2*(3,4); k=1: (1,2); k=2: (1,2) - (3,4).
  const auto dw = r.weight({3, 1, 1, 2});
  r->conv2d_backward_weight(*r.stream, s, x, dy, dw, GradMode::overwrite);
  CHECK(dw.read() == Values{7, 10, 1, 2, -2, -2});
  r->conv2d_backward_weight(*r.stream, s, x, dy, dw, GradMode::accumulate);
  CHECK(dw.read() == Values{14, 20, 2, 4, -4, -4});
}

TEST_CASE("convolution: 3x3 with padding counts the neighbours inside the image") {
  const Reference r;
  const ConvShape s{.n = 1, .h = 3, .w = 3, .c_in = 1, .c_out = 1, .kernel = 3, .stride = 1, .padding = 1};
  const auto x = r.image({1, 3, 3, 1}, Values(9, 1.0));
  const auto w = r.weight({1, 3, 3, 1}, Values(9, 1.0));
  const auto y = r.image({1, 3, 3, 1});
  r->conv2d_forward(*r.stream, s, x, w, y);
  CHECK(y.read() == Values{4, 6, 4, 6, 9, 6, 4, 6, 4});
}

TEST_CASE("convolution: cross-correlation, not flipped; rows before columns") {
  const Reference r;
  const ConvShape s{.n = 1, .h = 2, .w = 3, .c_in = 1, .c_out = 1, .kernel = 2};
  const auto x = r.image({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const auto w = r.weight({1, 2, 2, 1}, {1000, 100, 10, 1});
  const auto y = r.image({1, 1, 2, 1});
  r->conv2d_forward(*r.stream, s, x, w, y);
  CHECK(y.read() == Values{1245, 2356});
}

TEST_CASE("convolution: stride 2 takes every second pixel, and its gradient reaches only those") {
  const Reference r;
  const ConvShape s{.n = 1, .h = 3, .w = 3, .c_in = 1, .c_out = 1, .kernel = 1, .stride = 2};
  const auto x = r.image({1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto w = r.weight({1, 1, 1, 1}, {2});
  const auto y = r.image({1, 2, 2, 1});
  r->conv2d_forward(*r.stream, s, x, w, y);
  CHECK(y.read() == Values{2, 6, 14, 18});
  const auto dx = r.image({1, 3, 3, 1});
  r->conv2d_backward_data(*r.stream, s, y, w, dx, GradMode::overwrite);
  CHECK(dx.read() == Values{4, 0, 12, 0, 0, 0, 28, 0, 36});
}

TEST_CASE("convolution: gradients equal finite differences") {
  const Reference r;
  const ConvShape s = GENERATE(ConvShape{2, 4, 3, 2, 3, 3, 1, 1}, ConvShape{1, 5, 5, 2, 2, 3, 2, 1},
                               ConvShape{2, 3, 3, 3, 2, 1, 2, 0}, ConvShape{1, 4, 5, 1, 2, 7, 2, 3});
  const Shape x_shape{s.n, s.h, s.w, s.c_in}, w_shape{s.c_out, s.kernel, s.kernel, s.c_in};
  const Shape y_shape{s.n, s.out_h(), s.out_w(), s.c_out};
  const Values x = uniform(x_shape.numel(), -1, 1, 1), w = uniform(w_shape.numel(), -1, 1, 2);
  const Values dy = uniform(y_shape.numel(), -1, 1, 3);
  const auto loss = [&](const Values& x_values, const Values& w_values) {
    const auto y = r.image(y_shape);
    r->conv2d_forward(*r.stream, s, r.image(x_shape, x_values), r.weight(w_shape, w_values), y);
    return dot(y.read(), dy);
  };
  const auto dx = r.image(x_shape);
  r->conv2d_backward_data(*r.stream, s, r.image(y_shape, dy), r.weight(w_shape, w), dx, GradMode::overwrite);
  check_gradient(x, dx.read(), [&](const Values& at) { return loss(at, w); });
  const auto dw = r.weight(w_shape);
  r->conv2d_backward_weight(*r.stream, s, r.image(x_shape, x), r.image(y_shape, dy), dw, GradMode::overwrite);
  check_gradient(w, dw.read(), [&](const Values& at) { return loss(x, at); });
}

TEST_CASE("convolution: bf16 rounds once, at the store") {
  const Reference r;
  const ConvShape s{.n = 1, .h = 1, .w = 1, .c_in = 3, .c_out = 1};
  // 256 + 1 + 1 = 258. Rounded after every addition, bf16 (steps of 2 above 256) would stay at 256.
  const auto x = r.image({1, 1, 1, 3}, {256, 1, 1}, DType::bf16);
  const auto w = r.weight({1, 1, 1, 3}, {1, 1, 1}, DType::bf16);
  const auto y = r.image({1, 1, 1, 1}, {}, DType::bf16);
  r->conv2d_forward(*r.stream, s, x, w, y);
  CHECK(y.read() == Values{258});
}
