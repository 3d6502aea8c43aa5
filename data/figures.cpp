#include "data/figures.h"

#include <algorithm>

namespace lockstep {

namespace {

// Calls inside(u, v), the signed distance from the figure's edge (positive inside), for the centre of every
// pixel, in the figure's own rotated axes. A pixel within half a pixel of the edge is covered in part.
template <class Inside>
void draw(const FigureOptions& options, Coverage& coverage, Inside inside) {
  for (int row = 0; row < kPictureSide; ++row) {
    const std::int32_t y = 256 * row + 128 - options.center_y;
    for (int column = 0; column < kPictureSide; ++column) {
      const std::int32_t x = 256 * column + 128 - options.center_x;
      const std::int32_t u = (x * options.cosine + y * options.sine) >> 12;
      const std::int32_t v = (y * options.cosine - x * options.sine) >> 12;
      coverage[static_cast<std::size_t>(row * kPictureSide + column)] =
          std::clamp(inside(u, v) + 128, 0, 256);
    }
  }
}

// The distance from a circle to first order, (r^2 - u^2 - v^2) / 2r, exact at the circle itself; no root, no
// division.
class Circle {
 public:
  explicit Circle(std::int32_t radius) : square_(radius * radius), reciprocal_((128 << 12) / radius) {}
  std::int32_t operator()(std::int32_t u, std::int32_t v) const {
    return (((square_ - u * u - v * v) >> 8) * reciprocal_) >> 12;
  }

 private:
  std::int32_t square_, reciprocal_;
};

// A coordinate folded into cells of one period.
class Cells {
 public:
  explicit Cells(std::int32_t period) : period_(period), reciprocal_((1 << 24) / period) {}
  // From -period/2 to period/2, zero in the middle of a cell.
  std::int32_t local(std::int32_t u) const { return ((phase(u) - 32768) * period_) >> 16; }
  // Distance from the edges of stripes half a period wide: positive on a stripe, negative between two.
  std::int32_t stripe(std::int32_t u) const {
    const std::int32_t offset = phase(u) - 32768;
    return ((16384 - std::max(offset, -offset)) * period_) >> 16;
  }

 private:
  std::int32_t phase(std::int32_t u) const { return ((u * reciprocal_) >> 8) & 0xffff; }
  std::int32_t period_, reciprocal_;
};

std::int32_t magnitude(std::int32_t u) {
  return std::max(u, -u);
}

void draw_triangle(const FigureOptions& options, Coverage& coverage) {
  // Equilateral, by its circumscribed radius: three edges at half that radius, 120 degrees apart.
  constexpr std::int32_t kHalfRootOfThree = 3547;  // sqrt(3)/2 in 1/4096
  const std::int32_t half = options.size / 2;
  draw(options, coverage, [=](std::int32_t u, std::int32_t v) {
    const std::int32_t side = (magnitude(u) * kHalfRootOfThree) >> 12;
    return half - std::max(v, side - (v >> 1));
  });
}

void draw_cross(const FigureOptions& options, Coverage& coverage) {
  const std::int32_t length = options.size, width = options.width;
  draw(options, coverage, [=](std::int32_t u, std::int32_t v) {
    const std::int32_t a = magnitude(u), b = magnitude(v);
    return std::max(std::min(width - a, length - b), std::min(length - a, width - b));
  });
}

void draw_checker(const FigureOptions& options, Coverage& coverage) {
  const Cells cells(options.size);
  draw(options, coverage, [=](std::int32_t u, std::int32_t v) {
    const std::int32_t a = cells.stripe(u), b = cells.stripe(v);
    return std::max(std::min(a, b), std::min(-a, -b));
  });
}

void draw_dots(const FigureOptions& options, Coverage& coverage) {
  const Cells cells(options.size);
  const Circle dot(options.width);
  draw(options, coverage,
       [=](std::int32_t u, std::int32_t v) { return dot(cells.local(u), cells.local(v)); });
}

}  // namespace

void draw_figure(const FigureOptions& options, Coverage& coverage) {
  switch (options.figure) {
    case Figure::disc:
      return draw(options, coverage, Circle(options.size));
    case Figure::square:
      return draw(options, coverage, [size = options.size](std::int32_t u, std::int32_t v) {
        return size - std::max(magnitude(u), magnitude(v));
      });
    case Figure::triangle:
      return draw_triangle(options, coverage);
    case Figure::cross:
      return draw_cross(options, coverage);
    case Figure::ring:
      return draw(options, coverage,
                  [circle = Circle(options.size), width = options.width](std::int32_t u, std::int32_t v) {
                    return width - magnitude(circle(u, v));
                  });
    case Figure::horizontal_stripes:
    case Figure::vertical_stripes:
    case Figure::diagonal_stripes:
      return draw(options, coverage,
                  [cells = Cells(options.size)](std::int32_t, std::int32_t v) { return cells.stripe(v); });
    case Figure::checker:
      return draw_checker(options, coverage);
    case Figure::dots:
      return draw_dots(options, coverage);
  }
}

}  // namespace lockstep
