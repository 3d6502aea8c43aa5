#include <limits>

#include "catch.h"
#include "kernels/backend_suite.h"
#include "kernels/twins.h"

namespace lockstep::suite {
namespace {

using namespace test;

constexpr double kRate = 0.125;

void sgd_case(Twins& twins, std::int64_t count, const SgdOptions& options, DType working_type) {
  INFO("sgd of " << count << ", momentum " << options.momentum << ", weight decay " << options.weight_decay
                 << ", nesterov " << options.nesterov << ", working " << name_of(working_type));
  const Pair w = twins.uniform(DType::f32, Layout::flat, {count});
  const Pair dw = twins.uniform(DType::f32, Layout::flat, {count});
  const Pair v = twins.uniform(DType::f32, Layout::flat, {count});
  const Pair working = twins.poisoned(working_type, Layout::flat, {count});
  const Values gradient = dw.expected();
  const Pair rate = twins.values(DType::f32, Layout::flat, {1}, {kRate});
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.sgd_step(stream, options, {rate[i], {}, {}}, w[i], dw[i], v[i], working[i]);
  });
  // v and w: three or four operations on values below 3.
  check_equal("v", v, {8 * kUnit, 2 * kUnit});
  check_equal("w", w, {8 * kUnit, 2 * kUnit});
  CHECK(compare(gradient, dw.actual(), kExact) == "");
  // The working copy is the tested backend's own new w, rounded once.
  const Pair own = twins.values(working_type, Layout::flat, {count}, w.actual());
  CHECK(compare(own.expected(), working.actual(), kExact) == "");

  const Pair scale = twins.values(DType::f32, Layout::flat, {1}, {4});
  const Pair go_on = twins.values(DType::f32, Layout::flat, {1}, {0});
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.sgd_step(stream, options, {rate[i], go_on[i], scale[i]}, w[i], dw[i], v[i], {});
  });
  check_equal("w after a step with scaled gradients, without a working copy", w, {16 * kUnit, 4 * kUnit});

  const Values before_w = w.actual(), before_v = v.actual(), before_working = working.actual();
  const Pair skip = twins.values(DType::f32, Layout::flat, {1}, {2});
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.sgd_step(stream, options, {rate[i], skip[i], {}}, w[i], dw[i], v[i], working[i]);
  });
  CHECK(compare(before_w, w.actual(), kExact) == "");
  CHECK(compare(before_v, v.actual(), kExact) == "");
  CHECK(compare(before_working, working.actual(), kExact) == "");
}

// Two steps of growth, and a scale that may not get below 4.
void loss_scale_case(Twins& twins) {
  const LossScaleOptions options{.growth = 2, .backoff = 0.25f, .growth_interval = 3, .floor = 4};
  struct Case {
    double overflow, scale, good_steps;
  };
  for (const Case& c : {Case{0, 16, 0}, Case{0, 16, 1}, Case{0, 16, 2}, Case{1, 64, 2}, Case{3, 8, 1},
                        Case{0, 0x1p127, 2}, Case{1, 4, 0}}) {
    INFO("loss scale " << c.scale << " after " << c.good_steps << " good steps, overflow " << c.overflow);
    const Pair overflow = twins.values(DType::f32, Layout::flat, {1}, {c.overflow});
    const Pair scale = twins.values(DType::f32, Layout::flat, {1}, {c.scale});
    const Pair good = twins.values(DType::f32, Layout::flat, {1}, {c.good_steps});
    twins.run([&](Backend& b, Stream& stream, int i) {
      b.update_loss_scale(stream, options, overflow[i], scale[i], good[i]);
    });
    check_equal("scale", scale, kExact);
    check_equal("good steps", good, kExact);
  }
}

void copy_if_case(Twins& twins) {
  for (const std::int64_t count : {1, 5, 1024, 4099}) {
    for (const double flag_value : {0.0, 1.0, 2.0}) {
      INFO("copy_if of " << count << ", flag " << flag_value);
      const Pair flag = twins.values(DType::f32, Layout::flat, {1}, {flag_value});
      const Pair x = twins.uniform(DType::f32, Layout::flat, {count});
      const Pair y = twins.uniform(DType::f32, Layout::flat, {count});
      twins.run([&](Backend& b, Stream& stream, int i) { b.copy_if(stream, flag[i], x[i], y[i]); });
      check_equal("y", y, kExact);
    }
  }
}

void augment_case(Twins& twins, const Shape& images_shape, const AugmentOptions& options, DType type) {
  INFO("augment " << images_shape.to_string() << " train " << options.train << " padding " << options.padding
                  << " " << name_of(type));
  Values pixels = uniform(images_shape.numel(), 0, 256, 3);
  for (double& pixel : pixels) pixel = std::floor(pixel);
  const Pair images = twins.values(DType::u8, Layout::flat, images_shape, pixels);
  Values rows;
  for (std::int64_t i = 0; i < 7; ++i) rows.push_back(static_cast<double>((i * 5 + 2) % images_shape[0]));
  const Pair samples = twins.values(DType::i32, Layout::flat, {7}, rows);
  const Pair epoch = twins.values(DType::i32, Layout::flat, {1}, {static_cast<double>(options.padding + 3)});
  const Pair y = twins.poisoned(type, Layout::nhwc, {7, images_shape[2], images_shape[3], 3});
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.augment_normalize(stream, options, images[i], samples[i], options.train ? epoch[i] : TensorView{},
                        y[i]);
  });
  // Three roundings on values up to 1, magnified by the inverse deviation.
  check_equal("y", y, rounded(type, {4 * kUnit * 5, 2 * kUnit}));
}

// Every rounding case of bf16 and of f16: ties to either side, overflow to infinity, subnormals.
Values cast_values() {
  const double inf = std::numeric_limits<double>::infinity();
  Values values = {0.0, -0.0, inf, -inf, std::nan(""), 3.14159274, 0x1p-149,
                   // bf16
                   1.0, 1 + 0x1p-8, 1 + 0x3p-8, -1 - 0x1p-8, 0x1.FFFFFEp127, 0x1.FEp127, 1 + 0x1p-8 + 0x1p-23,
                   0x1p-133, 0x1p-134, 0x1.8p-133,
                   // f16
                   1 + 0x1p-11, 1 + 0x3p-11, 1 + 0x1p-11 + 0x1p-23, 65504, 65519.99, 65520, -65520, 65536,
                   1e6, 0x1p-14, 0x1.FFCp-15, 0x1.FFEp-15, 0x1p-24, 0x1p-25, 0x1.000002p-25, 0x1.8p-24,
                   -0x1p-26};
  const Values more = uniform(1000, -5, 5, 17);
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

void cast_case(Twins& twins, DType from, DType to) {
  INFO(name_of(from) << " -> " << name_of(to));
  const Values values = cast_values();
  const auto count = static_cast<std::int64_t>(values.size());
  for (const std::int64_t part : {count, std::int64_t{5}}) {
    const Pair x = twins.values(from, Layout::flat, {part}, Values(values.begin(), values.begin() + part));
    const Pair y = twins.poisoned(to, Layout::flat, {part});
    twins.run([&](Backend& b, Stream& stream, int i) { b.cast(stream, x[i], y[i]); });
    check_equal("y", y, kExact);
  }
}

void non_finite_case(Twins& twins, DType type) {
  for (const std::int64_t count : {1, 7, 33, 4099}) {
    for (const double bad : {0.0, std::nan(""), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()}) {
      for (const std::int64_t position : {std::int64_t{0}, count / 2, count - 1}) {
        INFO("non-finite check of " << count << " " << name_of(type) << ", " << bad << " at " << position);
        Values values = uniform(count, -1, 1, 23);
        values[static_cast<std::size_t>(count / 3)] = type == DType::f16 ? 65504 : 3e38;  // large, but finite
        values[static_cast<std::size_t>(position)] = bad;
        const Pair x = twins.values(type, Layout::flat, {count}, values);
        for (const double before : {0.0, 1.0}) {
          const Pair flag = twins.values(DType::f32, Layout::flat, {1}, {before});
          twins.run([&](Backend& b, Stream& stream, int i) { b.non_finite_check(stream, x[i], flag[i]); });
          check_equal("flag", flag, kExact);
        }
      }
    }
  }
}

// One f32 rounding of a sum in f64, whose own error (count * 2^-53) is far below: neighbours at most.
void sum_of_squares_case(Twins& twins) {
  for (const std::int64_t count : {1, 3, 4, 1023, 70001, 1100000}) {
    for (const double scale : {1.0, 1e-15, 1e15}) {
      INFO("sum of squares of " << count << " values up to " << scale);
      const Pair x = twins.uniform(DType::f32, Layout::flat, {count}, -scale, scale);
      const Pair sum = twins.poisoned(DType::f32, Layout::flat, {1});
      twins.run([&](Backend& b, Stream& stream, int i) { b.sum_of_squares(stream, x[i], sum[i]); });
      check_equal("sum", sum, {0, 2 * kUnit});
      CHECK(sum.expected()[0] > 0);
    }
  }
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), 3e38}) {
    INFO("sum of squares with " << bad);
    Values values = uniform(5000, -1, 1, 29);
    values[4999] = bad;
    const Pair x = twins.values(DType::f32, Layout::flat, {5000}, values);
    const Pair sum = twins.poisoned(DType::f32, Layout::flat, {1});
    twins.run([&](Backend& b, Stream& stream, int i) { b.sum_of_squares(stream, x[i], sum[i]); });
    check_equal("sum", sum, kExact);
    CHECK_FALSE(std::isfinite(sum.actual()[0]));
  }
}

void checksum_case(Twins& twins, DType type) {
  for (const std::int64_t count : {1, 2, 3, 5, 4095, 4099, 1100003}) {
    INFO("checksum of " << count << " " << name_of(type));
    const Pair x = twins.uniform(type, Layout::flat, {count}, 0, 100);
    const Pair sum = twins.poisoned(DType::i32, Layout::flat, {2});
    twins.run([&](Backend& b, Stream& stream, int i) { b.checksum(stream, x[i], sum[i]); });
    check_equal("sum", sum, kExact);
  }
}

void memory_case(Twins& twins) {
  const Pair x = twins.uniform(DType::f32, Layout::flat, {1001});
  twins.run([&](Backend& b, Stream& stream, int i) {
    b.fill_zero(stream, static_cast<float*>(x[i].data) + 3, 990 * 4);
    b.fill_zero(stream, x[i].data, 0);
  });
  check_equal("partly zeroed", x, kExact);
  // Neighbouring parts of one tensor, and nothing beside them.
  twins.run([&](Backend& b, Stream& stream, int i) {
    auto* data = static_cast<float*>(x[i].data);
    b.copy_on_device(stream, data + 500, data + 995, 6 * 4);
    b.copy_on_device(stream, data + 7, data + 507, 493 * 4);
    b.copy_on_device(stream, data, data, 0);
  });
  check_equal("partly copied", x, kExact);
}

}  // namespace

void sgd(Backend& tested, const Arithmetic& arithmetic) {
  Twins twins(tested);
  for (const DType working : arithmetic.types) {
    for (const std::int64_t count : {1, 3, 64, 1001, 70000}) {
      sgd_case(twins, count, {}, working);
      sgd_case(twins, count, {.momentum = 0.9f, .weight_decay = 5e-4f}, working);
      sgd_case(twins, count, {.momentum = 0.9f, .weight_decay = 0.1f, .nesterov = true}, working);
    }
  }
}

void augment(Backend& tested, const Arithmetic& arithmetic) {
  Twins twins(tested);
  AugmentOptions options;
  options.seed = 0x123456789ABCDEFu;
  for (int c = 0; c < 3; ++c) options.mean[c] = 0.4f + 0.05f * static_cast<float>(c);
  for (int c = 0; c < 3; ++c) options.inverse_deviation[c] = 4.0f + 0.3f * static_cast<float>(c);
  for (const DType type : arithmetic.types) {
    for (const Shape& shape : {Shape{1, 3, 1, 1}, Shape{9, 3, 5, 7}, Shape{20, 3, 32, 32}}) {
      for (const bool train : {true, false}) {
        for (const std::int64_t padding : {0, 2, 4}) {
          options.train = train;
          options.padding = padding;
          augment_case(twins, shape, options, type);
        }
      }
    }
  }
}

void utilities(Backend& tested, const Arithmetic& arithmetic) {
  Twins twins(tested);
  for (const DType from : arithmetic.types) {
    for (const DType to : arithmetic.types) {
      if (from != to) cast_case(twins, from, to);
    }
  }
  sum_of_squares_case(twins);
  for (const DType type : arithmetic.types) checksum_case(twins, type);
  checksum_case(twins, DType::u8);
  for (const DType type : arithmetic.types) non_finite_case(twins, type);
  copy_if_case(twins);
  loss_scale_case(twins);
  memory_case(twins);
}

}  // namespace lockstep::suite
