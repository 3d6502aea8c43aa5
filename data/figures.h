// The figures of the synthetic data set: ten shapes and textures, drawn with soft edges.
//
// All of it is integer arithmetic, so that every machine and compiler draws the same picture.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

enum class Figure {
  disc,
  square,
  triangle,
  cross,
  ring,
  horizontal_stripes,
  vertical_stripes,
  diagonal_stripes,  // either diagonal: a mirror image must keep its class
  checker,
  dots,
};
constexpr int kFigures = 10;

constexpr int kPictureSide = 32;
constexpr int kPicturePixels = kPictureSide * kPictureSide;

// Lengths in 1/256 of a pixel.
struct FigureOptions {
  Figure figure = Figure::disc;
  std::int32_t center_x = 0, center_y = 0;
  std::int32_t cosine = 1 << 12, sine = 0;  // of its rotation, in 1/4096
  // The radius, half side or half length of a shape; the period of a texture.
  std::int32_t size = 0;
  // Half the width of a ring's band or of a cross's bar; the radius of a dot. Unused by the rest.
  std::int32_t width = 0;
};

// How much of each pixel the figure covers, 0 to 256, rows from the top.
using Coverage = std::array<std::int32_t, kPicturePixels>;
void draw_figure(const FigureOptions& options, Coverage& coverage);

}  // namespace lockstep
