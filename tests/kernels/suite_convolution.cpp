#include "catch.h"
#include "kernels/backend_suite.h"
#include "kernels/twins.h"

namespace lockstep::suite {
namespace {

using namespace test;

// Odd channel counts and images, then the shapes a ResNet has: 1x1, strided 1x1, 3x3 with and without stride
// on images down to one pixel, both stems, more images than fit a register's lanes.
constexpr ConvShape kShapes[] = {
    // n, h, w, c_in, c_out, kernel, stride, padding
    {1, 1, 1, 1, 1, 1, 1, 0},     {3, 5, 7, 3, 33, 1, 1, 0},    {2, 2, 2, 33, 65, 1, 1, 0},
    {1, 5, 7, 65, 100, 1, 2, 0},  {5, 1, 1, 100, 3, 1, 1, 0},   {2, 4, 4, 65, 33, 1, 2, 0},
    {1, 1, 1, 3, 33, 3, 1, 1},    {2, 2, 2, 33, 65, 3, 1, 1},   {2, 5, 7, 65, 33, 3, 1, 1},
    {3, 5, 7, 33, 100, 3, 2, 1},  {1, 8, 8, 3, 65, 3, 2, 1},    {2, 5, 7, 1, 3, 3, 1, 0},
    {3, 2, 2, 100, 65, 3, 2, 1},  {2, 5, 7, 3, 33, 7, 2, 3},    {1, 1, 1, 3, 33, 7, 2, 3},
    {1, 9, 7, 1, 1, 7, 1, 0},     {2, 3, 1, 33, 3, 3, 1, 2},    {2, 7, 5, 3, 3, 2, 3, 0},
    {4, 2, 2, 64, 256, 1, 1, 0},  {2, 4, 4, 128, 64, 1, 2, 0},  {2, 8, 8, 64, 64, 3, 1, 1},
    {2, 4, 4, 64, 128, 3, 2, 1},  {4, 2, 2, 128, 128, 3, 1, 1}, {8, 1, 1, 256, 128, 3, 1, 1},
    {8, 1, 1, 128, 512, 1, 1, 0}, {3, 2, 2, 128, 128, 3, 2, 1}, {1, 32, 32, 3, 64, 7, 2, 3},
    {1, 16, 16, 3, 64, 3, 1, 1},  {2, 16, 17, 33, 64, 1, 1, 0}, {33, 2, 2, 32, 64, 3, 1, 1},
    {35, 4, 4, 32, 96, 3, 2, 1},  {40, 1, 1, 32, 64, 3, 1, 1},  {19, 2, 2, 64, 128, 1, 2, 0},
    {3, 4, 4, 64, 32, 3, 1, 1},   {2, 8, 8, 32, 64, 3, 2, 1},   {5, 2, 4, 96, 32, 5, 3, 2},
    {1, 1, 1, 2048, 65, 1, 1, 0}, {3, 1, 1, 33, 2048, 1, 1, 0}, {1, 2, 2, 2048, 3, 3, 1, 1},
    {1, 3, 3, 1, 2048, 3, 2, 1},  {64, 9, 9, 3, 1, 3, 1, 1},
};

std::string describe(const ConvShape& s, DType type) {
  return fmt::format("n {} image {}x{} channels {} -> {} kernel {} stride {} padding {} {}", s.n, s.h, s.w,
                     s.c_in, s.c_out, s.kernel, s.stride, s.padding, name_of(type));
}

Tolerance sum_of(std::int64_t terms) {
  return {kUnit * static_cast<double>(terms + 2), 2 * kUnit};
}

void forward_and_data_gradient(Twins& twins, const ConvShape& s, DType type, bool tf32) {
  const Shape x_shape{s.n, s.h, s.w, s.c_in}, y_shape{s.n, s.out_h(), s.out_w(), s.c_out};
  const Pair w = twins.uniform(type, Layout::ohwi, {s.c_out, s.kernel, s.kernel, s.c_in});
  const Pair x = twins.uniform(type, Layout::nhwc, x_shape);
  const Pair y = twins.poisoned(type, Layout::nhwc, y_shape);
  twins.run([&](Backend& b, Stream& stream, int i) { b.conv2d_forward(stream, s, x[i], w[i], y[i]); });
  const auto products = [&](std::int64_t terms) {
    return tf32 ? tf32_products(terms, sum_of(terms)) : rounded(type, sum_of(terms));
  };
  check_equal("y", y, products(s.kernel * s.kernel * s.c_in));

  const Pair dy = twins.uniform(type, Layout::nhwc, y_shape);
  for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
    const bool overwrite = mode == GradMode::overwrite;
    const Pair dx =
        overwrite ? twins.poisoned(type, Layout::nhwc, x_shape) : twins.uniform(type, Layout::nhwc, x_shape);
    twins.run([&](Backend& b, Stream& stream, int i) {
      b.conv2d_backward_data(stream, s, dy[i], w[i], dx[i], mode);
    });
    check_equal(overwrite ? "dx overwritten" : "dx accumulated", dx, products(s.kernel * s.kernel * s.c_out));
  }
}

void weight_gradient(Twins& twins, const ConvShape& s, DType type, const Arithmetic& arithmetic) {
  const Pair x = twins.uniform(type, Layout::nhwc, {s.n, s.h, s.w, s.c_in});
  const Pair dy = twins.uniform(type, Layout::nhwc, {s.n, s.out_h(), s.out_w(), s.c_out});
  const Shape w_shape{s.c_out, s.kernel, s.kernel, s.c_in};
  for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
    const bool overwrite = mode == GradMode::overwrite;
    const Pair dw = overwrite ? twins.poisoned(DType::f32, Layout::ohwi, w_shape)
                              : twins.uniform(DType::f32, Layout::ohwi, w_shape);
    twins.run([&](Backend& b, Stream& stream, int i) {
      b.conv2d_backward_weight(stream, s, x[i], dy[i], dw[i], mode);
    });
    // dw is f32 for every compute type, so 16-bit inputs get no extra room but for sums that are rounded: dw
    // may be added to them that nearly cancels them, and is 1 at most.
    const std::int64_t terms = s.n * s.out_h() * s.out_w();
    Tolerance tolerance = sum_of(terms);
    if (arithmetic.tf32) tolerance = tf32_products(terms, tolerance);
    if (arithmetic.rounds_weight_sums) {
      const double exact_rel = tolerance.rel;
      tolerance = rounded(type, tolerance);
      if (!overwrite) tolerance.abs += tolerance.rel - exact_rel;
    }
    check_equal(overwrite ? "dw overwritten" : "dw accumulated", dw, tolerance);
  }
}

}  // namespace

void convolution(Backend& tested, const Arithmetic& arithmetic) {
  Twins twins(tested);
  for (const DType type : arithmetic.types) {
    for (const ConvShape& shape : kShapes) {
      INFO(describe(shape, type));
      forward_and_data_gradient(twins, shape, type, arithmetic.tf32);
      weight_gradient(twins, shape, type, arithmetic);
    }
  }
}

}  // namespace lockstep::suite
