#include <cmath>

#include "core/rng.h"
#include "kernels/host_tensor.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("sgd: plain, momentum, Nesterov and weight decay by hand") {
  const Reference r;
  const auto step = [&](double rate, const SgdOptions& options, double w, double dw, double v) {
    const auto weight = r.flat({1}, {w}), velocity = r.flat({1}, {v}), working = r.flat({1}, {}, DType::bf16);
    r->sgd_step(*r.stream, options, {r.flat({1}, {rate}), {}, {}}, weight, r.flat({1}, {dw}), velocity,
                working);
    return Values{weight.read()[0], velocity.read()[0], working.read()[0]};
  };
  // g = 2: w = 1 - 0.5 * 2.
  CHECK(step(0.5, {}, 1, 2, 0) == Values{0, 2, 0});
  // v = 0.5 * 4 + 2 = 4: w = 1 - 0.25 * 4.
  CHECK(step(0.25, {.momentum = 0.5f}, 1, 2, 4) == Values{0, 4, 0});
  // g = 2 + 0.5 * 4 = 4, v = 0.5 * 8 + 4 = 8, w = 4 - 0.25 * 8.
  CHECK(step(0.25, {.momentum = 0.5f, .weight_decay = 0.5f}, 4, 2, 8) == Values{2, 8, 2});
  // Nesterov: the step is g + 0.5 * v = 4 + 4, w = 4 - 0.25 * 8.
  CHECK(step(0.25, {.momentum = 0.5f, .weight_decay = 0.5f, .nesterov = true}, 4, 2, 8) == Values{2, 8, 2});
  CHECK(step(0.25, {.momentum = 0.5f, .nesterov = true}, 1, 2, 0) == Values{0.25, 2, 0.25});
  // The working copy is the rounded master: 1 - 2^-9 lies on the tie between 1 - 2^-8 and 1, whose last bit
  // is even.
  CHECK(step(1.0, {}, 1, 0x1p-9, 0) == Values{1 - 0x1p-9, 0x1p-9, 1});
}

namespace {

// A picture whose pixel tells where it is: channel c, row p, column q hold 100 c + 10 p + q.
Values numbered_picture(std::int64_t height, std::int64_t width) {
  Values values;
  for (int c = 0; c < 3; ++c) {
    for (int p = 0; p < height; ++p) {
      for (int q = 0; q < width; ++q) values.push_back(50 * c + 10 * p + q);
    }
  }
  return values;
}

AugmentOptions plain_options() {
  AugmentOptions options;
  options.train = false;
  return options;
}

}  // namespace

TEST_CASE("augment: evaluation normalises and changes planes to pixels") {
  const Reference r;
  AugmentOptions options = plain_options();
  options.mean[1] = 0.5f;
  options.inverse_deviation[2] = 2.0f;
  // Two pictures of one row and two columns; the second is asked for first.
  const auto images = r.flat({2, 3, 1, 2}, {0, 51, 102, 153, 204, 255, 255, 0, 255, 0, 255, 0}, DType::u8);
  const auto y = r.image({2, 1, 2, 3});
  r->augment_normalize(*r.stream, options, images, r.flat({2}, {1, 0}, DType::i32), {}, y);
  CHECK(compare({1, 0.5, 2, 0, -0.5, 0, 0, -0.1, 1.6, 0.2, 0.1, 2}, y.read(), 1e-7, 1e-7) == "");
}

TEST_CASE("augment: crop and flip follow the random words of (seed, epoch, sample)") {
  const Reference r;
  AugmentOptions options;
  options.seed = 42;
  options.padding = 2;
  options.mean[1] = 0.25f;  // so that padding, which is pixel 0, differs from the mean
  constexpr std::int64_t kHeight = 4, kWidth = 5;
  Values pixels;
  constexpr int kPictures = 40;
  for (int i = 0; i < kPictures; ++i) {
    const Values picture = numbered_picture(kHeight, kWidth);
    pixels.insert(pixels.end(), picture.begin(), picture.end());
  }
  const auto images = r.flat({kPictures, 3, kHeight, kWidth}, pixels, DType::u8);
  const auto epoch = r.flat({1}, {3}, DType::i32);
  int flips = 0, moved = 0;
  for (int sample = 0; sample < kPictures; ++sample) {
    const auto y = r.image({1, kHeight, kWidth, 3});
    r->augment_normalize(*r.stream, options, images, r.flat({1}, {double(sample)}, DType::i32), epoch, y);
    const Values actual = y.read();

    // The same by the formula: the counter of block (epoch, sample) with key 42, worked without class Philox.
    const auto words = philox4x32({static_cast<std::uint32_t>(sample), 0, 3, 2u << 24}, {42, 0});
    const int top = static_cast<int>(words[0] % 5), left = static_cast<int>(words[1] % 5);
    const bool flip = words[2] % 2 == 1;
    flips += flip;
    moved += top != 2 || left != 2;
    Values padded(3 * (kHeight + 4) * (kWidth + 4), 0.0);  // the picture with a border of two zeros
    for (int c = 0; c < 3; ++c) {
      for (int p = 0; p < kHeight; ++p) {
        for (int q = 0; q < kWidth; ++q) {
          padded[static_cast<std::size_t>((c * (kHeight + 4) + p + 2) * (kWidth + 4) + q + 2)] =
              50 * c + 10 * p + q;
        }
      }
    }
    Values expected;
    for (int p = 0; p < kHeight; ++p) {
      for (int q = 0; q < kWidth; ++q) {
        for (int c = 0; c < 3; ++c) {
          const int column = flip ? static_cast<int>(kWidth) - 1 - q : q;
          const auto at =
              static_cast<std::size_t>((c * (kHeight + 4) + p + top) * (kWidth + 4) + column + left);
          expected.push_back(padded[at] / 255 - (c == 1 ? 0.25 : 0.0));
        }
      }
    }
    INFO("sample " << sample << " top " << top << " left " << left << " flip " << flip);
    CHECK(compare(expected, actual, 1e-7, 1e-7) == "");
  }
  CHECK(flips > 10);  // both cases were seen
  CHECK(flips < 30);
  CHECK(moved > 30);
}

TEST_CASE("augment: a sample's picture does not depend on its place in the batch; epochs differ") {
  const Reference r;
  AugmentOptions options;
  options.seed = 7;
  const auto images = r.flat(
      {3, 3, 8, 8},
      [] {
        Values v = uniform(3 * 3 * 64, 0, 256, 9);
        for (double& value : v) value = std::floor(value);
        return v;
      }(),
      DType::u8);
  const auto first = r.flat({1}, {0}, DType::i32), second = r.flat({1}, {1}, DType::i32);
  const auto alone = r.image({1, 8, 8, 3}), batch = r.image({3, 8, 8, 3}), later = r.image({1, 8, 8, 3});
  r->augment_normalize(*r.stream, options, images, r.flat({1}, {2}, DType::i32), first, alone);
  r->augment_normalize(*r.stream, options, images, r.flat({3}, {1, 2, 0}, DType::i32), first, batch);
  const Values all = batch.read();
  CHECK(Values(all.begin() + 192, all.begin() + 384) == alone.read());
  r->augment_normalize(*r.stream, options, images, r.flat({1}, {2}, DType::i32), second, later);
  CHECK(later.read() != alone.read());
}

TEST_CASE("cast: bf16 at ties, overflow, infinities and NaN") {
  const Reference r;
  // Steps of bf16 are 2^-7 in [1, 2). Ties go to the even neighbour.
  const Values x = {1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-8 + 0x1p-20, -1 - 0x1p-8, 0x1.FFFFFEp127,
                    0x1.FEp127, kInfinity,  -kInfinity,           kNaN,        0x1p-134,
                    -0.0};
  const Values expected = {1,         1 + 0x1p-6, 1 + 0x1p-7, -1, kInfinity, 0x1.FEp127,
                           kInfinity, -kInfinity, kNaN,       0,  0};
  const auto count = static_cast<std::int64_t>(x.size());
  const auto narrow = r.flat({count}, {}, DType::bf16), wide = r.flat({count});
  r->cast(*r.stream, r.flat({count}, x), narrow);
  CHECK(compare(expected, narrow.read(), kExact) == "");
  CHECK(std::signbit(narrow.read().back()));
  r->cast(*r.stream, narrow, wide);
  CHECK(compare(expected, wide.read(), kExact) == "");

  // A NaN whose payload lies only in the lower half must not become an infinity.
  const auto payload = r.flat({1}, {0});
  const std::uint32_t bits = 0x7F800001u;
  r->copy_to_device(*r.stream, payload.view().data, &bits, 4);
  const auto one = r.flat({1}, {}, DType::bf16);
  r->cast(*r.stream, payload, one);
  CHECK(std::isnan(one.read()[0]));
}

TEST_CASE("reference: a double is rounded to bf16 once") {
  const Reference r;
  // The mean of two f32-exact values just above a tie: 1 + 2^-8 + 2^-30. Through f32 it would fall on the
  // tie, and then to 1.
  const auto x = r.image({1, 1, 2, 1}, {1, 1 + 0x1p-7}, DType::bf16);
  const auto y = r.flat({1, 1}, {}, DType::bf16);
  r->global_average_pool_forward(*r.stream, x, y);
  CHECK(y.read() == Values{1});  // the tie itself goes to even
  const auto direct =
      r.flat({3}, {1 + 0x1p-8 + 0x1p-30, 1 + 0x1p-8 - 0x1p-30, -1 - 0x3p-8 + 0x1p-40}, DType::bf16);
  CHECK(direct.read() == Values{1 + 0x1p-7, 1, -1 - 0x1p-7});
}

TEST_CASE("non-finite check: sets the flag, never clears it") {
  const Reference r;
  const auto flag_after = [&](const Values& x, double before, DType type = DType::f32) {
    const auto flag = r.flat({1}, {before});
    r->non_finite_check(*r.stream, r.flat({static_cast<std::int64_t>(x.size())}, x, type), flag);
    return flag.read()[0];
  };
  CHECK(flag_after({0, 1, -3e38}, 0) == 0);
  CHECK(flag_after({0, 1, -3e38}, 1) == 1);
  CHECK(flag_after({0, 1, kNaN}, 0) == 1);
  CHECK(flag_after({kInfinity, 1, 0}, 0) == 1);
  CHECK(flag_after({0, -kInfinity, 0}, 0, DType::bf16) == 1);
  CHECK(flag_after({0, 1e38, 0}, 0, DType::bf16) == 0);
}

TEST_CASE("sgd: a skipped step changes nothing, a scaled gradient counts as the gradient") {
  const Reference r;
  const auto w = r.flat({1}, {1}), v = r.flat({1}, {0}), rate = r.flat({1}, {0.5}), dw = r.flat({1}, {8});
  r->sgd_step(*r.stream, {}, {rate, r.flat({1}, {1}), {}}, w, dw, v, {});
  CHECK(w.read() == Values{1});
  r->sgd_step(*r.stream, {}, {rate, r.flat({1}, {0}), r.flat({1}, {16})}, w, dw, v, {});
  CHECK(w.read() == Values{0.75});
  CHECK(v.read() == Values{0.5});
}

TEST_CASE("loss scale: halves at an overflow, doubles after the interval, keeps its floor") {
  const Reference r;
  const auto overflow = r.flat({1}, {1}), none = r.flat({1}, {0}), scale = r.flat({1}, {8}),
             good = r.flat({1}, {1});
  const LossScaleOptions options{.growth_interval = 2, .floor = 3};
  r->update_loss_scale(*r.stream, options, none, scale, good);
  CHECK(scale.read() == Values{16});
  CHECK(good.read() == Values{0});
  r->update_loss_scale(*r.stream, options, none, scale, good);
  CHECK(good.read() == Values{1});
  r->update_loss_scale(*r.stream, options, overflow, scale, good);
  CHECK(scale.read() == Values{8});
  CHECK(good.read() == Values{0});
  for (int i = 0; i < 3; ++i) r->update_loss_scale(*r.stream, options, overflow, scale, good);
  CHECK(scale.read() == Values{3});
}

TEST_CASE("memory: copies on the device by hand") {
  const Reference r;
  const auto from = r.flat({4}, {1, 2, 3, 4}), to = r.flat({4}, {5, 6, 7, 8});
  r->copy_on_device(*r.stream, to.view().as<float>() + 1, from.view().as<float>() + 2, 2 * sizeof(float));
  CHECK(to.read() == Values{5, 3, 4, 8});
  CHECK(from.read() == Values{1, 2, 3, 4});
}

TEST_CASE("reference: ops run on a worker stream in order") {
  const Reference r;
  WorkerStream comm("test-comm");
  const auto x = r.flat({2}, {-1, 2}), y = r.flat({2}), z = r.flat({2}, {}, DType::bf16);
  r->relu_forward(comm, x, y);
  r->cast(comm, y, z);
  comm.synchronize();
  CHECK(z.read() == Values{0, 2});
}
