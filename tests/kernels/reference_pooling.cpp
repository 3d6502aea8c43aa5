#include "kernels/host_tensor.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("relu: forward and backward by hand") {
  const Reference r;
  const auto x = r.flat({5}, {-1, 0, 2, kNaN, -kInfinity});
  const auto y = r.flat({5});
  r->relu_forward(*r.stream, x, y);
  CHECK(compare({0, 0, 2, kNaN, 0}, y.read(), kExact) == "");
  const auto dx = r.flat({5});
  r->relu_backward(*r.stream, y, r.flat({5}, {1, 2, 3, 4, 5}), dx);
  CHECK(dx.read() == Values{0, 0, 3, 0, 0});
}

TEST_CASE("max pool: values, positions and gradient by hand") {
  const Reference r;
  const PoolShape s{.n = 1, .h = 3, .w = 3, .c = 1, .kernel = 2, .stride = 1, .padding = 0};
  const auto x = r.image({1, 3, 3, 1}, {1, 5, 2, 5, 5, 3, 4, 0, 6});
  const auto y = r.image({1, 2, 2, 1});
  const auto index = r.image({1, 2, 2, 1}, {}, DType::u8);
  r->max_pool_forward(*r.stream, s, x, y, index);
  CHECK(y.read() == Values{5, 5, 5, 6});
  CHECK(index.read() == Values{1, 0, 0, 3});  // the first of equal values
  const auto dx = r.image({1, 3, 3, 1});
  r->max_pool_backward(*r.stream, s, r.image({1, 2, 2, 1}, {1, 2, 4, 8}), index, dx);
  CHECK(dx.read() == Values{0, 3, 0, 4, 0, 0, 0, 0, 8});
}

TEST_CASE("max pool: padding is minus infinity, a NaN is the largest") {
  const Reference r;
  const PoolShape s{.n = 1, .h = 2, .w = 2, .c = 2, .kernel = 3, .stride = 2, .padding = 1};
  const auto x = r.image({1, 2, 2, 2}, {-4, 1, -3, kNaN, -2, kNaN, -5, 2});
  const auto y = r.image({1, 1, 1, 2});
  const auto index = r.image({1, 1, 1, 2}, {}, DType::u8);
  r->max_pool_forward(*r.stream, s, x, y, index);
  CHECK(compare({-2, kNaN}, y.read(), kExact) == "");
  // The window's first row and column are padding: the picture's pixels are positions 4, 5, 7, 8.
  CHECK(index.read() == Values{7, 5});
}

TEST_CASE("max pool: gradient equals finite differences") {
  const Reference r;
  const PoolShape s{.n = 2, .h = 5, .w = 4, .c = 2, .kernel = 3, .stride = 2, .padding = 1};
  const Shape x_shape{2, 5, 4, 2}, y_shape{2, s.out_h(), s.out_w(), 2};
  const Values x = uniform(x_shape.numel(), -1, 1, 1), dy = uniform(y_shape.numel(), -1, 1, 2);
  const auto pool = [&](const Values& at) {
    const auto y = r.image(y_shape);
    const auto index = r.image(y_shape, {}, DType::u8);
    r->max_pool_forward(*r.stream, s, r.image(x_shape, at), y, index);
    return std::make_pair(y.read(), index.read());
  };
  const auto dx = r.image(x_shape);
  r->max_pool_backward(*r.stream, s, r.image(y_shape, dy), r.image(y_shape, pool(x).second, DType::u8), dx);
  check_gradient(
      x, dx.read(), [&](const Values& at) { return dot(pool(at).first, dy); }, 2e-3,
      [&](const Values& above, const Values& below) { return pool(above).second == pool(below).second; });
}

TEST_CASE("global average pool: by hand") {
  const Reference r;
  const auto x = r.image({2, 1, 2, 2}, {1, 10, 3, 30, -1, 0, -2, 0.5});
  const auto y = r.flat({2, 2});
  r->global_average_pool_forward(*r.stream, x, y);
  CHECK(y.read() == Values{2, 20, -1.5, 0.25});
  const auto dx = r.image({2, 1, 2, 2});
  r->global_average_pool_backward(*r.stream, r.flat({2, 2}, {2, 4, 6, 8}), dx);
  CHECK(dx.read() == Values{1, 2, 1, 2, 3, 4, 3, 4});
}
