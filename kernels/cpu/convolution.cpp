// Convolution as matrix products wherever the shape allows it, else by oneDNN's convolution.
//
//   few_pixels    f32 on images of few pixels: few_pixels.h.
//   pointwise     1x1: y = x w^T over the pixels; with a stride, over the pixels that it meets.
//   single_pixel  the output is one pixel, so each image row meets one kernel row: a product a row.
//   dense         3x3 on 2x2 images: every output pixel meets every input pixel, so the whole image is one
//                 row of a product with the kernel expanded to [4*Cout][4*Cin].
//   columns       the window of every output pixel gathered to a row ("im2col"), then one product.
//   direct        oneDNN.
#include <cstring>

#include "kernels/cpu/convolution_path.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/gather.h"
#include "kernels/cpu/ops.h"

namespace lockstep::cpu {
namespace {

// The operands of one call; `out` is y, dx or dw.
struct Operands {
  const ConvShape& shape;
  DType type;
  const void* x;
  const void* w;
  const void* dy;
  void* out;
  bool accumulate;

  std::int64_t pixels() const { return shape.n * shape.out_h() * shape.out_w(); }
  std::int64_t window() const { return shape.kernel * shape.kernel * shape.c_in; }
};

const void* at(const void* base, DType type, std::int64_t index) {
  return static_cast<const char*>(base) + index * size_of(type);
}
void* at(void* base, DType type, std::int64_t index) {
  return static_cast<char*>(base) + index * size_of(type);
}

// y[rows, c_out] = a[rows, k] w[c_out, k]^T
void product_forward(Machine& m, DType type, std::int64_t rows, std::int64_t k, std::int64_t c_out,
                     const void* a, std::int64_t lda, const void* w, std::int64_t ldw, void* y, DType y_type,
                     std::int64_t ldy, bool accumulate) {
  m.primitives.matmul({rows, k, c_out, lda, ldw, ldy, false, true, accumulate, type, y_type}, a, w, y);
}

// da[rows, k] = dy[rows, c_out] w[c_out, k]
void product_data(Machine& m, DType type, std::int64_t rows, std::int64_t k, std::int64_t c_out,
                  const void* dy, std::int64_t lddy, const void* w, std::int64_t ldw, void* da, DType da_type,
                  std::int64_t lda, bool accumulate) {
  m.primitives.matmul({rows, c_out, k, lddy, ldw, lda, false, false, accumulate, type, da_type}, dy, w, da);
}

// dw[c_out, k] = dy[rows, c_out]^T a[rows, k]
void product_weight(Machine& m, DType type, std::int64_t rows, std::int64_t k, std::int64_t c_out,
                    const void* dy, std::int64_t lddy, const void* a, std::int64_t lda, void* dw,
                    std::int64_t lddw, bool accumulate) {
  m.primitives.matmul({c_out, rows, k, lddy, lda, lddw, true, false, accumulate, type, DType::f32}, dy, a,
                      dw);
}

// --- pointwise ---

const void* met_pixels(Machine& m, const Operands& o) {
  if (o.shape.stride == 1) return o.x;
  void* gathered = m.workspace.get(Area::columns, o.pixels() * o.shape.c_in * size_of(o.type));
  gather_strided(m.threads, o.shape, o.type, o.x, gathered);
  return gathered;
}

void pointwise_forward(Machine& m, const Operands& o) {
  const ConvShape& s = o.shape;
  product_forward(m, o.type, o.pixels(), s.c_in, s.c_out, met_pixels(m, o), s.c_in, o.w, s.c_in, o.out,
                  o.type, s.c_out, false);
}

void pointwise_data(Machine& m, const Operands& o) {
  const ConvShape& s = o.shape;
  if (s.stride == 1) {
    return product_data(m, o.type, o.pixels(), s.c_in, s.c_out, o.dy, s.c_out, o.w, s.c_in, o.out, o.type,
                        s.c_in, o.accumulate);
  }
  float* met = m.workspace.array<float>(Area::columns, o.pixels() * s.c_in);
  product_data(m, o.type, o.pixels(), s.c_in, s.c_out, o.dy, s.c_out, o.w, s.c_in, met, DType::f32, s.c_in,
               false);
  scatter_strided(m.threads, s, o.type, met, o.out, o.accumulate);
}

void pointwise_weight(Machine& m, const Operands& o) {
  const ConvShape& s = o.shape;
  product_weight(m, o.type, o.pixels(), s.c_in, s.c_out, o.dy, s.c_out, met_pixels(m, o), s.c_in, o.out,
                 s.c_in, o.accumulate);
}

// --- single pixel ---

// Row i of the image meets row padding + i of the kernel, `length` values from `column` on.
struct Rows {
  explicit Rows(const ConvShape& s)
      : count(std::min(s.kernel - s.padding, s.h)),
        length(std::min(s.kernel - s.padding, s.w) * s.c_in),
        image_row(s.w * s.c_in),
        image(s.h * s.w * s.c_in),
        kernel(s.kernel * s.kernel * s.c_in),
        kernel_row(s.kernel * s.c_in),
        kernel_begin((s.padding * s.kernel + s.padding) * s.c_in) {}
  std::int64_t kernel_at(std::int64_t row) const { return kernel_begin + row * kernel_row; }
  bool meets_all() const { return count * length == image; }
  std::int64_t count, length, image_row, image, kernel, kernel_row, kernel_begin;
};

// The weights that meet the image, without gaps: oneDNN has no fast product of y = x w^T otherwise.
const void* met_weights(Machine& m, const Operands& o, const Rows& rows) {
  const std::int64_t bytes = rows.length * size_of(o.type), count = rows.count;
  char* met = static_cast<char*>(m.workspace.get(Area::weights, o.shape.c_out * count * bytes));
  m.threads.split(o.shape.c_out, 1, o.shape.c_out * count * bytes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * count; i < end * count; ++i) {
      std::memcpy(met + i * bytes, at(o.w, o.type, i / count * rows.kernel + rows.kernel_at(i % count)),
                  static_cast<std::size_t>(bytes));
    }
  });
  return met;
}

void single_pixel_forward(Machine& m, const Operands& o) {
  const ConvShape& s = o.shape;
  const Rows rows(s);
  const void* w = met_weights(m, o, rows);
  const std::int64_t met = rows.count * rows.length;
  if (rows.meets_all())
    return product_forward(m, o.type, s.n, met, s.c_out, o.x, met, w, met, o.out, o.type, s.c_out, false);
  // Several products must not be added in bf16.
  const bool widened = o.type == DType::bf16 && rows.count > 1;
  void* y = widened ? m.workspace.get(Area::result, s.n * s.c_out * size_of(DType::f32)) : o.out;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    product_forward(m, o.type, s.n, rows.length, s.c_out, at(o.x, o.type, row * rows.image_row), rows.image,
                    at(w, o.type, row * rows.length), met, y, widened ? DType::f32 : o.type, s.c_out,
                    row > 0);
  }
  if (widened) convert(m.threads, static_cast<float*>(y), static_cast<bfloat16*>(o.out), s.n * s.c_out);
}

void single_pixel_data(Machine& m, const Operands& o) {
  const ConvShape& s = o.shape;
  const Rows rows(s);
  if (!rows.meets_all() && !o.accumulate) fill_zero(m.threads, o.out, s.n * rows.image * size_of(o.type));
  for (std::int64_t row = 0; row < rows.count; ++row) {
    product_data(m, o.type, s.n, rows.length, s.c_out, o.dy, s.c_out, at(o.w, o.type, rows.kernel_at(row)),
                 rows.kernel, at(o.out, o.type, row * rows.image_row), o.type, rows.image, o.accumulate);
  }
}

void single_pixel_weight(Machine& m, const Operands& o) {
  const ConvShape& s = o.shape;
  const Rows rows(s);
  if (!o.accumulate) fill_zero(m.threads, o.out, s.c_out * rows.kernel * size_of(DType::f32));
  for (std::int64_t row = 0; row < rows.count; ++row) {
    product_weight(m, o.type, s.n, rows.length, s.c_out, o.dy, s.c_out, at(o.x, o.type, row * rows.image_row),
                   rows.image, at(o.out, DType::f32, rows.kernel_at(row)), rows.kernel, o.accumulate);
  }
}

// --- dense ---

const void* expanded(Machine& m, const Operands& o) {
  void* weights = m.workspace.get(Area::weights, 16 * o.shape.c_in * o.shape.c_out * size_of(o.type));
  expand_kernel(m.threads, o.shape, o.type, o.w, weights);
  return weights;
}

void dense_forward(Machine& m, const Operands& o) {
  const std::int64_t in = 4 * o.shape.c_in, out = 4 * o.shape.c_out;
  product_forward(m, o.type, o.shape.n, in, out, o.x, in, expanded(m, o), in, o.out, o.type, out, false);
}

void dense_data(Machine& m, const Operands& o) {
  const std::int64_t in = 4 * o.shape.c_in, out = 4 * o.shape.c_out;
  product_data(m, o.type, o.shape.n, in, out, o.dy, out, expanded(m, o), in, o.out, o.type, in, o.accumulate);
}

void dense_weight(Machine& m, const Operands& o) {
  const std::int64_t in = 4 * o.shape.c_in, out = 4 * o.shape.c_out;
  float* dw = m.workspace.array<float>(Area::weights, in * out);
  product_weight(m, o.type, o.shape.n, in, out, o.dy, out, o.x, in, dw, in, false);
  fold_kernel(m.threads, o.shape, dw, static_cast<float*>(o.out), o.accumulate);
}

// --- columns ---

// Images whose columns fit into the scratch memory at once.
std::int64_t images_at_once(const Operands& o) {
  constexpr std::int64_t kColumnBytes = 64 << 20;
  const std::int64_t image = o.shape.out_h() * o.shape.out_w() * o.window() * size_of(DType::f32);
  return std::clamp<std::int64_t>(kColumnBytes / image, 1, o.shape.n);
}

// Calls body(operands of a group of images, columns) for all groups.
template <class Body>
void for_image_groups(Machine& m, const Operands& o, const Body& body) {
  const ConvShape& s = o.shape;
  const std::int64_t group = images_at_once(o);
  void* columns =
      m.workspace.get(Area::columns, group * s.out_h() * s.out_w() * o.window() * size_of(DType::f32));
  for (std::int64_t first = 0; first < s.n; first += group) {
    ConvShape part = s;
    part.n = std::min(group, s.n - first);
    body(part, first * s.h * s.w * s.c_in, first * s.out_h() * s.out_w() * s.c_out, columns);
  }
}

void columns_forward(Machine& m, const Operands& o) {
  const std::int64_t k = o.window(), c_out = o.shape.c_out;
  for_image_groups(m, o, [&](const ConvShape& part, std::int64_t x_at, std::int64_t y_at, void* columns) {
    gather_windows(m.threads, part, o.type, at(o.x, o.type, x_at), columns);
    product_forward(m, o.type, part.n * part.out_h() * part.out_w(), k, c_out, columns, k, o.w, k,
                    at(o.out, o.type, y_at), o.type, c_out, false);
  });
}

void columns_data(Machine& m, const Operands& o) {
  const std::int64_t k = o.window(), c_out = o.shape.c_out;
  for_image_groups(m, o, [&](const ConvShape& part, std::int64_t x_at, std::int64_t y_at, void* columns) {
    product_data(m, o.type, part.n * part.out_h() * part.out_w(), k, c_out, at(o.dy, o.type, y_at), c_out,
                 o.w, k, columns, DType::f32, k, false);
    scatter_windows(m.threads, part, o.type, static_cast<const float*>(columns), at(o.out, o.type, x_at),
                    o.accumulate);
  });
}

void columns_weight(Machine& m, const Operands& o) {
  const std::int64_t k = o.window(), c_out = o.shape.c_out;
  for_image_groups(m, o, [&](const ConvShape& part, std::int64_t x_at, std::int64_t y_at, void* columns) {
    gather_windows(m.threads, part, o.type, at(o.x, o.type, x_at), columns);
    product_weight(m, o.type, part.n * part.out_h() * part.out_w(), k, c_out, at(o.dy, o.type, y_at), c_out,
                   columns, k, o.out, k, o.accumulate || x_at > 0);
  });
}

// --- few pixels ---

const float* floats(const void* values) {
  return static_cast<const float*>(values);
}

void few_forward(Machine& m, const Operands& o) {
  few_pixels_forward(m, o.shape, floats(o.x), floats(o.w), static_cast<float*>(o.out));
}

void few_data(Machine& m, const Operands& o) {
  few_pixels_data(m, o.shape, floats(o.dy), floats(o.w), static_cast<float*>(o.out), o.accumulate);
}

void few_weight(Machine& m, const Operands& o) {
  few_pixels_weight(m, o.shape, floats(o.x), floats(o.dy), static_cast<float*>(o.out), o.accumulate);
}

// --- direct ---

// oneDNN's gradients cannot add to what is there: those go through scratch memory, in f32, to be rounded
// once.
void direct(Machine& m, Direction direction, const Operands& o) {
  const ConvShape& s = o.shape;
  const bool weight = direction == Direction::backward_weight;
  const void* first = direction == Direction::backward_data ? o.dy : o.x;
  const void* second = weight ? o.dy : o.w;
  const DType type = weight ? DType::f32 : o.type;
  if (!o.accumulate) return m.primitives.convolution(direction, s, o.type, type, first, second, o.out);
  const std::int64_t count = weight ? s.c_out * o.window() : s.n * s.h * s.w * s.c_in;
  float* result = m.workspace.array<float>(Area::result, count);
  m.primitives.convolution(direction, s, o.type, DType::f32, first, second, result);
  with_compute_type(type, [&](auto t) { add(m.threads, result, static_cast<decltype(t)*>(o.out), count); });
}

// --- choice ---
void run(Machine& m, Direction direction, const Operands& o) {
  using Op = void (*)(Machine&, const Operands&);
  constexpr Op kOps[][3] = {{few_forward, few_data, few_weight},
                            {pointwise_forward, pointwise_data, pointwise_weight},
                            {single_pixel_forward, single_pixel_data, single_pixel_weight},
                            {dense_forward, dense_data, dense_weight},
                            {columns_forward, columns_data, columns_weight}};
  const Path path = convolution_path(direction, o.shape, o.type);
  if (path == Path::direct) return direct(m, direction, o);
  kOps[static_cast<std::size_t>(path)][static_cast<std::size_t>(direction)](m, o);
}

// bf16 on a machine that cannot multiply it: the same in f32, with operands converted on the way in and out.
void run_in_f32(Machine& m, Direction direction, const Operands& o) {
  const ConvShape& s = o.shape;
  const std::int64_t x_count = s.n * s.h * s.w * s.c_in, w_count = s.c_out * o.window();
  const std::int64_t y_count = o.pixels() * s.c_out;
  const auto widen_to = [&](Area area, const void* from, std::int64_t count) {
    float* to = m.workspace.array<float>(area, count);
    convert(m.threads, static_cast<const bfloat16*>(from), to, count);
    return static_cast<const void*>(to);
  };
  Operands wide{s, DType::f32, nullptr, nullptr, nullptr, o.out, o.accumulate};
  if (o.x) wide.x = widen_to(Area::source, o.x, x_count);
  if (o.dy) wide.dy = widen_to(o.x ? Area::gradient : Area::source, o.dy, y_count);
  if (o.w) wide.w = widen_to(Area::gradient, o.w, w_count);
  if (direction == Direction::backward_weight) return run(m, direction, wide);
  const std::int64_t count = direction == Direction::forward ? y_count : x_count;
  float* result = m.workspace.array<float>(Area::widened, count);
  if (o.accumulate) convert(m.threads, static_cast<const bfloat16*>(o.out), result, count);
  wide.out = result;
  run(m, direction, wide);
  convert(m.threads, result, static_cast<bfloat16*>(o.out), count);
}

void dispatch(Machine& m, Direction direction, const Operands& o) {
  refuse_f16(o.type);
  if (o.type == DType::bf16 && !m.fast_bf16) return run_in_f32(m, direction, o);
  run(m, direction, o);
}

}  // namespace

void conv2d_forward(Machine& machine, const ConvShape& shape, const TensorView& x, const TensorView& w,
                    const TensorView& y) {
  dispatch(machine, Direction::forward, {shape, x.dtype, x.data, w.data, nullptr, y.data, false});
}

void conv2d_backward_data(Machine& machine, const ConvShape& shape, const TensorView& dy, const TensorView& w,
                          const TensorView& dx, GradMode mode) {
  dispatch(machine, Direction::backward_data,
           {shape, dy.dtype, nullptr, w.data, dy.data, dx.data, mode == GradMode::accumulate});
}

void conv2d_backward_weight(Machine& machine, const ConvShape& shape, const TensorView& x,
                            const TensorView& dy, const TensorView& dw, GradMode mode) {
  dispatch(machine, Direction::backward_weight,
           {shape, x.dtype, x.data, nullptr, dy.data, dw.data, mode == GradMode::accumulate});
}

}  // namespace lockstep::cpu
