#include <limits>

#include "catch.h"
#include "kernels/backend_suite.h"
#include "kernels/twins.h"

namespace lockstep::suite {
namespace {

using namespace test;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr PoolShape kShapes[] = {
    // n, h, w, c, kernel, stride, padding
    {1, 1, 1, 1, 3, 2, 1},    {2, 2, 2, 3, 3, 2, 1},    {3, 5, 7, 33, 3, 2, 1},   {2, 5, 7, 65, 2, 2, 0},
    {1, 7, 5, 100, 3, 1, 1},  {2, 9, 9, 16, 5, 3, 2},   {1, 16, 16, 64, 3, 2, 1}, {2, 4, 4, 3, 1, 1, 0},
    {1, 17, 16, 1, 16, 1, 8}, {1, 3, 2, 2048, 3, 2, 1}, {9, 31, 30, 3, 3, 2, 1},
};

void max_pool(Twins& twins, const PoolShape& s, DType type, bool ties) {
  INFO("max pool n " << s.n << " image " << s.h << "x" << s.w << " channels " << s.c << " kernel " << s.kernel
                     << " stride " << s.stride << " " << name_of(type) << ", ties " << ties);
  const Shape x_shape{s.n, s.h, s.w, s.c}, y_shape{s.n, s.out_h(), s.out_w(), s.c};
  Values x_values =
      uniform(x_shape.numel(), -3, -1, 11);  // negative: padding with zero instead of -inf would win
  if (ties) {
    for (double& value : x_values) value = std::floor(value);
    for (std::size_t i = 5; i < x_values.size(); i += 37) x_values[i] = kNaN;
    for (std::size_t i = 7; i < x_values.size(); i += 41)
      x_values[i] = -std::numeric_limits<double>::infinity();
  }
  const Pair x = twins.values(type, Layout::nhwc, x_shape, x_values);
  const Pair y = twins.poisoned(type, Layout::nhwc, y_shape);
  const Pair index = twins.poisoned(DType::u8, Layout::nhwc, y_shape);
  const Pair dy = twins.uniform(type, Layout::nhwc, y_shape);
  const Pair dx = twins.poisoned(type, Layout::nhwc, x_shape);
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.max_pool_forward(stream, s, x[i], y[i], index[i]);
    b.max_pool_backward(stream, s, dy[i], index[i], dx[i]);
  });
  check_equal("y", y, kExact);
  check_equal("index", index, kExact);
  // A pixel may be the maximum of up to kernel^2 windows.
  check_equal("dx", dx, rounded(type, {kUnit * static_cast<double>(s.kernel * s.kernel), 2 * kUnit}));
}

void average_pool(Twins& twins, const Shape& x_shape, DType type) {
  INFO("global average pool " << x_shape.to_string() << " " << name_of(type));
  const Shape y_shape{x_shape[0], x_shape[3]};
  const Pair x = twins.uniform(type, Layout::nhwc, x_shape);
  const Pair y = twins.poisoned(type, Layout::flat, y_shape);
  const Pair dy = twins.uniform(type, Layout::flat, y_shape);
  const Pair dx = twins.poisoned(type, Layout::nhwc, x_shape);
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.global_average_pool_forward(stream, x[i], y[i]);
    b.global_average_pool_backward(stream, dy[i], dx[i]);
  });
  check_equal("y", y, rounded(type, {4 * kUnit, 4 * kUnit}));  // the sum's error is divided by the pixels too
  check_equal("dx", dx, rounded(type, {0, 2 * kUnit}));
}

}  // namespace

void pooling(Backend& tested, const Arithmetic& arithmetic) {
  Twins twins(tested);
  for (const DType type : arithmetic.types) {
    for (const PoolShape& shape : kShapes) {
      max_pool(twins, shape, type, false);
      max_pool(twins, shape, type, true);
    }
    for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{3, 2, 2, 33}, Shape{2, 5, 7, 65}, Shape{5, 4, 4, 512},
                               Shape{3, 7, 7, 2048}, Shape{2, 3, 3, 100}, Shape{1, 40, 41, 3}}) {
      average_pool(twins, shape, type);
    }
  }
}

void relu(Backend& tested, const Arithmetic& arithmetic) {
  Twins twins(tested);
  for (const DType type : arithmetic.types) {
    for (const std::int64_t count : {1, 3, 33, 100, 4099}) {
      INFO("relu of " << count << " " << name_of(type));
      Values values = uniform(count, -1, 1, 5);
      values[0] = kNaN;
      if (count > 2) values[1] = -0.0, values[2] = std::numeric_limits<double>::infinity();
      if (count > 90) values[90] = kNaN;  // in the part that is vectorised
      const Pair x = twins.values(type, Layout::flat, {count}, values);
      const Pair y = twins.poisoned(type, Layout::flat, {count});
      const Pair dy = twins.uniform(type, Layout::flat, {count});
      const Pair dx = twins.poisoned(type, Layout::flat, {count});
      twins.run([&](Backend& b, Stream& stream, int i) {
        b.relu_forward(stream, x[i], y[i]);
        b.relu_backward(stream, y[i], dy[i], dx[i]);
      });
      check_equal("y", y, kExact);
      check_equal("dx", dx, kExact);
      twins.run([&](Backend& b, Stream& stream, int i) {  // in place
        b.relu_backward(stream, y[i], dy[i], dy[i]);
        b.relu_forward(stream, x[i], x[i]);
      });
      check_equal("x in place", x, kExact);
      check_equal("dy in place", dy, kExact);
      CHECK(compare(y.expected(), x.actual(), kExact) == "");
      CHECK(compare(dx.expected(), dy.actual(), kExact) == "");
    }
  }
}

}  // namespace lockstep::suite
