// Memory, loss, optimiser, input and utilities.
#include "bench/kernels/operands.h"
#include "bench/kernels/recorder.h"

namespace lockstep::bench {
namespace {

TensorView bytes_at(const void* data, std::int64_t bytes) {
  return {const_cast<void*>(data), DType::u8, Layout::flat, Shape{bytes}};
}

Operand on_host(Operand operand) {
  operand.on_host = true;
  return operand;
}

Operand any_byte(Operand operand) {
  return within(std::move(operand), 0, 256);
}

std::string describe_bytes(std::int64_t bytes) {
  return fmt::format("{} bytes", bytes);
}

std::string describe_elements(const TensorView& x) {
  return fmt::format("{} {}", x.numel(), name_of(x.dtype));
}

}  // namespace

// bytes: src + dst, in each of the copies
void Recorder::copy_to_device(Stream&, void* dst, const void* host_src, std::int64_t bytes) {
  add({.op = "copy_to_device",
       .detail = describe_bytes(bytes),
       .operands = {output("dst", bytes_at(dst, bytes), 0),
                    on_host(any_byte(input("host_src", bytes_at(host_src, bytes))))},
       .run = [bytes](Backend& b, Stream& stream, const Tensors& t) {
         b.copy_to_device(stream, t[0].data, t[1].data, bytes);
       }});
}

void Recorder::copy_to_host(Stream&, void* host_dst, const void* src, std::int64_t bytes) {
  add({.op = "copy_to_host",
       .detail = describe_bytes(bytes),
       .operands = {on_host(output("host_dst", bytes_at(host_dst, bytes), 0)),
                    any_byte(input("src", bytes_at(src, bytes)))},
       .run = [bytes](Backend& b, Stream& stream, const Tensors& t) {
         b.copy_to_host(stream, t[0].data, t[1].data, bytes);
       }});
}

void Recorder::copy_on_device(Stream&, void* dst, const void* src, std::int64_t bytes) {
  add({.op = "copy_on_device",
       .detail = describe_bytes(bytes),
       .operands = {output("dst", bytes_at(dst, bytes), 0), any_byte(input("src", bytes_at(src, bytes)))},
       .run = [bytes](Backend& b, Stream& stream, const Tensors& t) {
         b.copy_on_device(stream, t[0].data, t[1].data, bytes);
       }});
}

// bytes: dst
void Recorder::fill_zero(Stream&, void* dst, std::int64_t bytes) {
  add({.op = "fill_zero",
       .detail = describe_bytes(bytes),
       .operands = {output("dst", bytes_at(dst, bytes), 0)},
       .run = [bytes](Backend& b, Stream& stream, const Tensors& t) {
         b.fill_zero(stream, t[0].data, bytes);
       }});
}

// bytes: logits + labels + dlogits and three numbers
void Recorder::softmax_cross_entropy(Stream&, const TensorView& logits, const TensorView& labels,
                                     float smoothing, const TensorView& gradient_scale,
                                     const TensorView& loss, const TensorView& correct,
                                     const TensorView& dlogits) {
  const std::int64_t n = logits.shape[0];
  const auto classes = static_cast<double>(logits.shape[1]);
  const double room = 64 + sum_of(static_cast<double>(n) + classes);  // 64: of exp and log
  add({.op = "softmax_cross_entropy",
       .detail = logits.shape.to_string(),
       .samples = n,
       .least_samples = n,
       .operands = {per_sample(input("logits", logits)),
                    per_sample(within(input("labels", labels), 0, classes)),
                    constant(input("gradient_scale", gradient_scale), 1), output("loss", loss, room),
                    output("correct", correct, 0), per_sample(output("dlogits", dlogits, room))},
       .run = [smoothing](Backend& b, Stream& stream, const Tensors& t) {
         b.softmax_cross_entropy(stream, t[0], t[1], smoothing, t[2], t[3], t[4], t[5]);
       }});
}

// bytes: dw + working, w and v twice, and three numbers
void Recorder::sgd_step(Stream&, const SgdOptions& options, const SgdControl& control, const TensorView& w,
                        const TensorView& dw, const TensorView& v, const TensorView& working) {
  constexpr double kRoundings = 32;
  add({.op = "sgd_step",
       .detail = describe_elements(w),
       .operands = {constant(input("learning_rate", control.learning_rate), 0x1p-7),
                    constant(input("skip", control.skip), 0),
                    constant(input("gradient_scale", control.gradient_scale), 1), updated("w", w, kRoundings),
                    input("dw", dw), updated("v", v, kRoundings), output("working", working, kRoundings)},
       .run = [options](Backend& b, Stream& stream, const Tensors& t) {
         b.sgd_step(stream, options, {t[0], t[1], t[2]}, t[3], t[4], t[5], t[6]);
       }});
}

// bytes: five numbers
void Recorder::update_loss_scale(Stream&, const LossScaleOptions& options, const TensorView& overflow,
                                 const TensorView& scale, const TensorView& good_steps) {
  add({.op = "update_loss_scale",
       .detail = "one number",
       .operands = {constant(input("overflow", overflow), 0), constant(updated("scale", scale, 0), 1024),
                    constant(updated("good_steps", good_steps, 0), 0)},
       .run = [options](Backend& b, Stream& stream, const Tensors& t) {
         b.update_loss_scale(stream, options, t[0], t[1], t[2]);
       }});
}

// bytes: the images that are picked (here all, each about once) + y + samples and one number
void Recorder::augment_normalize(Stream&, const AugmentOptions& options, const TensorView& images,
                                 const TensorView& samples, const TensorView& epoch, const TensorView& y) {
  const std::int64_t n = samples.shape[0];
  add({.op = "augment_normalize",
       .detail = y.shape.to_string(),
       .samples = n,
       .least_samples = n,  // what becomes of an image depends on its number
       .operands = {any_byte(input("images", images)),
                    per_sample(within(input("samples", samples), 0, static_cast<double>(images.shape[0]))),
                    constant(input("epoch", epoch), 1), per_sample(output("y", y, 16))},
       .run = [options](Backend& b, Stream& stream, const Tensors& t) {
         b.augment_normalize(stream, options, t[0], t[1], t[2], t[3]);
       }});
}

// bytes: x + y
void Recorder::cast(Stream&, const TensorView& x, const TensorView& y) {
  add({.op = "cast",
       .detail = fmt::format("{} to {}", describe_elements(x), name_of(y.dtype)),
       .operands = {input("x", x), output("y", y, 0)},
       .run = [](Backend& b, Stream& stream, const Tensors& t) { b.cast(stream, t[0], t[1]); }});
}

// bytes: x, and the flag where one is found
void Recorder::non_finite_check(Stream&, const TensorView& x, const TensorView& flag) {
  add({.op = "non_finite_check",
       .detail = describe_elements(x),
       .operands = {input("x", x), constant(updated("flag", flag, 0), 0)},
       .run = [](Backend& b, Stream& stream, const Tensors& t) { b.non_finite_check(stream, t[0], t[1]); }});
}

// bytes: x + y and the flag, which is set: else nothing is copied
void Recorder::copy_if(Stream&, const TensorView& flag, const TensorView& x, const TensorView& y) {
  add({.op = "copy_if",
       .detail = describe_elements(x),
       .operands = {constant(input("flag", flag), 1), input("x", x), output("y", y, 0)},
       .run = [](Backend& b, Stream& stream, const Tensors& t) { b.copy_if(stream, t[0], t[1], t[2]); }});
}

// bytes: x, and one number
void Recorder::sum_of_squares(Stream&, const TensorView& x, const TensorView& sum) {
  add({.op = "sum_of_squares",
       .detail = describe_elements(x),
       .operands = {input("x", x), output("sum", sum, 2)},
       .run = [](Backend& b, Stream& stream, const Tensors& t) { b.sum_of_squares(stream, t[0], t[1]); }});
}

// bytes: x, and two numbers
void Recorder::checksum(Stream&, const TensorView& x, const TensorView& sum) {
  add({.op = "checksum",
       .detail = describe_elements(x),
       .operands = {input("x", x), output("sum", sum, 0)},
       .run = [](Backend& b, Stream& stream, const Tensors& t) { b.checksum(stream, t[0], t[1]); }});
}

}  // namespace lockstep::bench
