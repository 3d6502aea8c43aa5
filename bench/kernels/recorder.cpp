// The recorder's list, and the ops of a network's layers.
#include "bench/kernels/recorder.h"

#include "bench/kernels/operands.h"

namespace lockstep::bench {

void* AddressSpace::allocate(std::int64_t bytes) {
  void* address = reinterpret_cast<void*>(next_);
  next_ += (bytes + 511) / 256 * 256;
  return address;
}

void Recorder::add(Call call) {
  std::string key = fmt::format("{}|{}", call.op, call.detail);
  for (const Operand& operand : call.operands) {
    const TensorView& view = operand.view;
    const bool given = static_cast<bool>(view);
    key += given ? fmt::format("|{} {} {}", operand.name, name_of(view.dtype), view.shape.to_string()) : "|";
  }
  const auto [place, is_new] = known_.emplace(key, calls_.size());
  if (is_new) calls_.push_back(std::move(call));
  if (counts_) ++calls_[place->second].calls;
}

namespace {

// --- convolution ------------------------------------------------------------------------------------

std::string describe(const ConvShape& s) {
  return fmt::format("{}x{}x{}x{} -> {} {}x{} stride {}", s.n, s.h, s.w, s.c_in, s.c_out, s.kernel, s.kernel,
                     s.stride);
}

// How a kernel meets an image along one side: a tap on the padding costs nothing.
struct Side {
  std::int64_t products = 0;  // pairs of an output and a tap that lies inside the image
  std::int64_t taps = 0;      // that are inside for any output
};

Side side_of(const ConvShape& s, std::int64_t in, std::int64_t out) {
  Side side;
  for (std::int64_t r = 0; r < s.kernel; ++r) {
    const std::int64_t before = side.products;
    for (std::int64_t p = 0; p < out; ++p) {
      const std::int64_t at = p * s.stride - s.padding + r;
      if (at >= 0 && at < in) ++side.products;
    }
    if (side.products > before) ++side.taps;
  }
  return side;
}

// One multiplication and addition for each output, tap and input channel.
double flops_of(const ConvShape& s) {
  return 2.0 * static_cast<double>(s.n * s.c_in * s.c_out) *
         static_cast<double>(side_of(s, s.h, s.out_h()).products * side_of(s, s.w, s.out_w()).products);
}

// Of a 3x3 kernel on an image of one pixel the middle is read.
Operand weight(const ConvShape& s, const TensorView& w) {
  Operand operand = input("w", w);
  operand.touched = static_cast<double>(side_of(s, s.h, s.out_h()).taps * side_of(s, s.w, s.out_w()).taps) /
                    static_cast<double>(s.kernel * s.kernel);
  return operand;
}

// x or dx: a kernel smaller than its stride leaves pixels out.
Operand image(Operand operand, const ConvShape& s) {
  if (s.kernel < s.stride) {
    operand.touched =
        static_cast<double>(s.kernel * s.kernel * s.out_h() * s.out_w()) / static_cast<double>(s.h * s.w);
  }
  return per_sample(std::move(operand));
}

ConvShape with_samples(ConvShape shape, const TensorView& x) {
  shape.n = x.shape[0];
  return shape;
}

}  // namespace

// bytes: x + w + y
void Recorder::conv2d_forward(Stream&, const ConvShape& s, const TensorView& x, const TensorView& w,
                              const TensorView& y) {
  const double terms = static_cast<double>(s.kernel * s.kernel * s.c_in);
  add({.op = "conv2d_forward",
       .detail = describe(s),
       .samples = s.n,
       .flops = flops_of(s),
       .operands = {image(input("x", x), s), weight(s, w), per_sample(output("y", y, sum_of(terms)))},
       .run = [s](Backend& b, Stream& stream, const Tensors& t) {
         b.conv2d_forward(stream, with_samples(s, t[0]), t[0], t[1], t[2]);
       }});
}

// bytes: dy + w + dx, and dx twice where it accumulates. Overwriting writes all of dx, zeros too.
void Recorder::conv2d_backward_data(Stream&, const ConvShape& s, const TensorView& dy, const TensorView& w,
                                    const TensorView& dx, GradMode mode) {
  const bool adds = mode == GradMode::accumulate;
  const Operand target = gradient("dx", dx, mode, sum_of(static_cast<double>(s.kernel * s.kernel * s.c_out)));
  add({.op = "conv2d_backward_data",
       .detail = describe(s) + (adds ? " accumulate" : ""),
       .samples = s.n,
       .flops = flops_of(s),
       .operands = {per_sample(input("dy", dy)), weight(s, w), adds ? image(target, s) : per_sample(target)},
       .run = [s, mode](Backend& b, Stream& stream, const Tensors& t) {
         b.conv2d_backward_data(stream, with_samples(s, t[0]), t[0], t[1], t[2], mode);
       }});
}

// bytes: x + dy + dw, and dw twice where it accumulates
void Recorder::conv2d_backward_weight(Stream&, const ConvShape& s, const TensorView& x, const TensorView& dy,
                                      const TensorView& dw, GradMode mode) {
  const double terms = static_cast<double>(s.n * s.out_h() * s.out_w());
  add({.op = "conv2d_backward_weight",
       .detail = describe(s) + (mode == GradMode::accumulate ? " accumulate" : ""),
       .samples = s.n,
       .flops = flops_of(s),
       .operands = {image(input("x", x), s), per_sample(input("dy", dy)),
                    sum_over_samples(gradient("dw", dw, mode, sum_of(terms)), s.n)},
       .run = [s, mode](Backend& b, Stream& stream, const Tensors& t) {
         b.conv2d_backward_weight(stream, with_samples(s, t[0]), t[0], t[1], t[2], mode);
       }});
}

// --- ReLU -------------------------------------------------------------------------------------------

// bytes: x + y
void Recorder::relu_forward(Stream&, const TensorView& x, const TensorView& y) {
  add({.op = "relu_forward",
       .detail = x.shape.to_string(),
       .samples = x.shape[0],
       .operands = {per_sample(input("x", x)), per_sample(output("y", y, 0))},
       .run = [](Backend& b, Stream& stream, const Tensors& t) { b.relu_forward(stream, t[0], t[1]); }});
}

// bytes: y + dy + dx
void Recorder::relu_backward(Stream&, const TensorView& y, const TensorView& dy, const TensorView& dx) {
  add({.op = "relu_backward",
       .detail = dx.shape.to_string(),
       .samples = dx.shape[0],
       .operands = {per_sample(input("y", y)), per_sample(input("dy", dy)), per_sample(output("dx", dx, 0))},
       .run = [](Backend& b, Stream& stream, const Tensors& t) {
         b.relu_backward(stream, t[0], t[1], t[2]);
       }});
}

// --- pooling ----------------------------------------------------------------------------------------

namespace {

std::string describe(const PoolShape& s) {
  return fmt::format("{}x{}x{}x{} {}x{} stride {}", s.n, s.h, s.w, s.c, s.kernel, s.kernel, s.stride);
}

PoolShape with_samples(PoolShape shape, const TensorView& x) {
  shape.n = x.shape[0];
  return shape;
}

}  // namespace

// bytes: x + y + index
void Recorder::max_pool_forward(Stream&, const PoolShape& s, const TensorView& x, const TensorView& y,
                                const TensorView& index) {
  add({.op = "max_pool_forward",
       .detail = describe(s),
       .samples = s.n,
       .operands = {per_sample(input("x", x)), per_sample(output("y", y, 0)),
                    per_sample(output("index", index, 0))},
       .run = [s](Backend& b, Stream& stream, const Tensors& t) {
         b.max_pool_forward(stream, with_samples(s, t[0]), t[0], t[1], t[2]);
       }});
}

// bytes: dy + index + dx. Where the maxima are, a forward pass says: not every number is a place in a window.
// dx sums up to four gradients, so in f32 a few roundings.
void Recorder::max_pool_backward(Stream&, const PoolShape& s, const TensorView& dy, const TensorView& index,
                                 const TensorView& dx) {
  Operand x = per_sample(input("x", dx));
  x.role = Role::scratch;
  add({.op = "max_pool_backward",
       .detail = describe(s),
       .samples = s.n,
       .operands = {per_sample(input("dy", dy)), per_sample(input("index", index)),
                    per_sample(output("dx", dx, 8)), x},
       .run = [s](Backend& b, Stream& stream,
                  const Tensors& t) { b.max_pool_backward(stream, with_samples(s, t[0]), t[0], t[1], t[2]); },
       .prepare =
           [s](Backend& b, Stream& stream, const Tensors& t) {
             b.max_pool_forward(stream, with_samples(s, t[0]), t[3], t[0], t[1]);
           }});
}

// bytes: x + y
void Recorder::global_average_pool_forward(Stream&, const TensorView& x, const TensorView& y) {
  const double terms = static_cast<double>(x.shape[1] * x.shape[2]);
  add({.op = "global_average_pool_forward",
       .detail = x.shape.to_string(),
       .samples = x.shape[0],
       .operands = {per_sample(input("x", x)), per_sample(output("y", y, sum_of(terms)))},
       .run = [](Backend& b, Stream& stream, const Tensors& t) {
         b.global_average_pool_forward(stream, t[0], t[1]);
       }});
}

// bytes: dy + dx
void Recorder::global_average_pool_backward(Stream&, const TensorView& dy, const TensorView& dx) {
  add({.op = "global_average_pool_backward",
       .detail = dx.shape.to_string(),
       .samples = dx.shape[0],
       .operands = {per_sample(input("dy", dy)), per_sample(output("dx", dx, 8))},
       .run = [](Backend& b, Stream& stream, const Tensors& t) {
         b.global_average_pool_backward(stream, t[0], t[1]);
       }});
}

// --- linear -----------------------------------------------------------------------------------------

namespace {

std::string describe_linear(std::int64_t n, std::int64_t in, std::int64_t out) {
  return fmt::format("{}x{} -> {}", n, in, out);
}
double product_flops(const TensorView& a, const TensorView& b) {
  return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.shape[1]);
}

}  // namespace

// bytes: x + w + bias + y
void Recorder::linear_forward(Stream&, const TensorView& x, const TensorView& w, const TensorView& bias,
                              const TensorView& y) {
  const double terms = static_cast<double>(x.shape[1]);
  add({.op = "linear_forward",
       .detail = describe_linear(x.shape[0], x.shape[1], y.shape[1]),
       .samples = x.shape[0],
       .flops = product_flops(x, y),
       .operands = {per_sample(input("x", x)), input("w", w), input("bias", bias),
                    per_sample(output("y", y, sum_of(terms)))},
       .run = [](Backend& b, Stream& stream, const Tensors& t) {
         b.linear_forward(stream, t[0], t[1], t[2], t[3]);
       }});
}

// bytes: dy + w + dx
void Recorder::linear_backward_data(Stream&, const TensorView& dy, const TensorView& w,
                                    const TensorView& dx) {
  const double terms = static_cast<double>(dy.shape[1]);
  add({.op = "linear_backward_data",
       .detail = describe_linear(dx.shape[0], dx.shape[1], dy.shape[1]),
       .samples = dx.shape[0],
       .flops = product_flops(dy, dx),
       .operands = {per_sample(input("dy", dy)), input("w", w), per_sample(output("dx", dx, sum_of(terms)))},
       .run = [](Backend& b, Stream& stream, const Tensors& t) {
         b.linear_backward_data(stream, t[0], t[1], t[2]);
       }});
}

// bytes: x + dy + dw + dbias, and the last two twice where they accumulate
void Recorder::linear_backward_weight(Stream&, const TensorView& x, const TensorView& dy,
                                      const TensorView& dw, const TensorView& dbias, GradMode mode) {
  const std::int64_t n = x.shape[0];
  const double room = sum_of(static_cast<double>(n));
  add({.op = "linear_backward_weight",
       .detail =
           describe_linear(n, x.shape[1], dy.shape[1]) + (mode == GradMode::accumulate ? " accumulate" : ""),
       .samples = n,
       .flops = product_flops(x, dy),
       .operands = {per_sample(input("x", x)), per_sample(input("dy", dy)),
                    sum_over_samples(gradient("dw", dw, mode, room), n),
                    sum_over_samples(gradient("dbias", dbias, mode, room), n)},
       .run = [mode](Backend& b, Stream& stream, const Tensors& t) {
         b.linear_backward_weight(stream, t[0], t[1], t[2], t[3], mode);
       }});
}

}  // namespace lockstep::bench
