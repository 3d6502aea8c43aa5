// Every layer alone: its backward against finite differences of its forward, on the reference backend.
#include "layers/batch_norm.h"
#include "layers/conv2d.h"
#include "layers/global_average_pool.h"
#include "layers/linear.h"
#include "layers/max_pool.h"
#include "layers/softmax_cross_entropy.h"
#include "support/check_gradient.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

const GradientsReady kIgnore = [](int, int) {};

// A layer's store and arena, filled with random weights.
struct Rig : Harness {
  HostAllocator host;
  ParameterStore store;
  Arena arena{host, 1 << 22};
  ForwardPass forward{context, Mode::training};
  BackwardPass backward{context, Mode::training, GradMode::overwrite, kIgnore};

  void randomize() {
    store.allocate(host, host, DType::f32);
    for (int i = 0; i < store.count(); ++i) {
      const auto w = values(store.weight(i));
      Philox(3, RandomStream::init).fill_normal(static_cast<std::uint64_t>(i), 0.0f, 0.5f, w);
    }
    for (std::size_t i = 0; i < store.buffers().size(); ++i) {
      for (float& v : values(store.buffer(static_cast<int>(i)))) v = 0.3f + 2.0f * store.buffers()[i].initial;
    }
  }
};

}  // namespace

TEST_CASE("conv2d: gradients of input and weight") {
  const Conv2dOptions options =
      GENERATE(Conv2dOptions{3, 4, 1, 1, 0}, Conv2dOptions{3, 4, 1, 2, 0}, Conv2dOptions{2, 3, 3, 1, 1},
               Conv2dOptions{2, 3, 3, 2, 1}, Conv2dOptions{3, 2, 7, 2, 3});
  CAPTURE(options.kernel, options.stride);
  Rig rig;
  Conv2d conv("conv", options);
  conv.declare_parameters(rig.store);
  rig.randomize();
  const TensorView x = rig.random(Layout::nhwc, Shape{2, 5, 7, options.c_in}, 1);
  const TensorView y = conv.layout(rig.arena, x);
  const TensorView dy = rig.random(Layout::nhwc, y.shape, 2);
  const TensorView dx = rig.random(Layout::nhwc, x.shape, 3);
  const Objective objective{[&] { return dot(conv.forward(rig.forward, x), dy); }};
  objective.value();
  conv.backward(rig.backward, dy, dx, GradMode::overwrite);
  check_gradient(objective, x, dx);
  check_gradient(objective, rig.store.weight(0), rig.store.gradient(0));

  SECTION("accumulation adds to both") {
    const float before_x = values(dx)[5], before_w = values(rig.store.gradient(0))[1];
    conv.forward(rig.forward, x);
    conv.backward({rig.context, Mode::training, GradMode::accumulate, kIgnore}, dy, dx, GradMode::accumulate);
    CHECK(values(dx)[5] == Approx(2 * before_x));
    CHECK(values(rig.store.gradient(0))[1] == Approx(2 * before_w));
  }
}

TEST_CASE("batch norm: gradients of input, residual, gamma and beta") {
  const bool relu = GENERATE(false, true);
  const bool with_residual = GENERATE(false, true);
  const Mode mode = GENERATE(Mode::training, Mode::frozen);
  CAPTURE(relu, with_residual, mode == Mode::frozen);
  Rig rig;
  BatchNorm norm("bn", 3, relu);
  norm.declare_parameters(rig.store);
  norm.declare_buffers(rig.store);
  rig.randomize();
  const TensorView x = rig.random(Layout::nhwc, Shape{2, 3, 2, 3}, 1);
  const TensorView residual = with_residual ? rig.random(Layout::nhwc, x.shape, 4) : TensorView{};
  const TensorView y = norm.layout(rig.arena, x);
  const TensorView dy = rig.random(Layout::nhwc, y.shape, 2);
  const TensorView dx = rig.tensor(Layout::nhwc, x.shape);
  const TensorView dresidual = with_residual ? rig.tensor(Layout::nhwc, x.shape) : TensorView{};
  const Objective objective{[&] {
                              return dot(norm.forward({rig.context, mode}, x, residual), dy);
                            },
                            [&] { return zeros(values(y)); }};
  objective.value();
  norm.backward({rig.context, mode, GradMode::overwrite, kIgnore}, dy, dx, dresidual);
  check_gradient(objective, x, dx);
  check_gradient(objective, rig.store.weight(0), rig.store.gradient(0));
  check_gradient(objective, rig.store.weight(1), rig.store.gradient(1));
  if (with_residual) check_gradient(objective, residual, dresidual);
}

TEST_CASE("batch norm keeps running statistics in training only, and refuses backward in evaluation") {
  Rig rig;
  BatchNorm norm("bn", 2, false);
  norm.declare_parameters(rig.store);
  norm.declare_buffers(rig.store);
  rig.randomize();
  for (int i = 0; i < 2; ++i) {
    for (float& v : values(rig.store.buffer(i))) v = static_cast<float>(i);
  }
  const TensorView x = rig.tensor(Layout::nhwc, Shape{2, 1, 2, 2});
  for (std::size_t i = 0; i < 8; ++i) values(x)[i] = static_cast<float>(i);  // channel 0 holds 0, 2, 4, 6
  norm.layout(rig.arena, x);
  for (const Mode mode : {Mode::evaluation, Mode::frozen}) {
    norm.forward({rig.context, mode}, x);
    CHECK(values(rig.store.buffer(0))[0] == 0.0f);
    CHECK(values(rig.store.buffer(1))[0] == 1.0f);
  }
  norm.forward(rig.forward, x);
  CHECK(values(rig.store.buffer(0))[0] == Approx(0.1 * 3.0));
  CHECK(values(rig.store.buffer(1))[0] == Approx(0.9 + 0.1 * 20.0 / 3.0));  // the unbiased variance
  CHECK_THROWS_AS(norm.backward({rig.context, Mode::evaluation, GradMode::overwrite, kIgnore}, x, x), Error);
}

TEST_CASE("max pool: gradient of the input") {
  Rig rig;
  MaxPool pool("pool", 3, 2, 1);
  // Distinct values, further apart than the step of the differences.
  const TensorView x = rig.tensor(Layout::nhwc, Shape{2, 5, 4, 3});
  for (std::size_t i = 0; i < 120; ++i) values(x)[i] = 0.1f * static_cast<float>((i * 47) % 120) - 6.0f;
  const TensorView y = pool.layout(rig.arena, x);
  const TensorView dy = rig.random(Layout::nhwc, y.shape, 2);
  const TensorView dx = rig.random(Layout::nhwc, x.shape, 3);
  const Objective objective{[&] { return dot(pool.forward(rig.forward, x), dy); }};
  objective.value();
  pool.backward(rig.backward, dy, dx);
  check_gradient(objective, x, dx, 120);
}

TEST_CASE("global average pool: gradient of the input") {
  Rig rig;
  GlobalAveragePool pool("pool");
  const TensorView x = rig.random(Layout::nhwc, Shape{2, 3, 2, 5}, 1);
  const TensorView y = pool.layout(rig.arena, x);
  const TensorView dy = rig.random(Layout::flat, y.shape, 2);
  const TensorView dx = rig.random(Layout::nhwc, x.shape, 3);
  const Objective objective{[&] { return dot(pool.forward(rig.forward, x), dy); }};
  objective.value();
  pool.backward(rig.backward, dy, dx);
  check_gradient(objective, x, dx);
}

TEST_CASE("linear: gradients of input, weight and bias") {
  Rig rig;
  Linear linear("fc", 6, 5);
  linear.declare_parameters(rig.store);
  rig.randomize();
  const TensorView x = rig.random(Layout::flat, Shape{3, 6}, 1);
  const TensorView y = linear.layout(rig.arena, x);
  const TensorView dy = rig.random(Layout::flat, y.shape, 2);
  const TensorView dx = rig.random(Layout::flat, x.shape, 3);
  const Objective objective{[&] { return dot(linear.forward(rig.forward, x), dy); }};
  objective.value();
  linear.backward(rig.backward, dy, dx);
  check_gradient(objective, x, dx);
  for (int i = 0; i < 2; ++i) check_gradient(objective, rig.store.weight(i), rig.store.gradient(i));
}

TEST_CASE("softmax cross-entropy: gradient of the logits") {
  const float smoothing = GENERATE(0.0f, 0.1f);
  Rig rig;
  SoftmaxCrossEntropy loss("loss", smoothing);
  loss.layout(rig.arena);
  const TensorView logits = rig.random(Layout::flat, Shape{4, 5}, 1);
  const TensorView dlogits = rig.tensor(Layout::flat, logits.shape);
  const TensorView labels = rig.tensor(Layout::flat, Shape{4}, DType::i32);
  for (int i = 0; i < 4; ++i) labels.as<std::int32_t>()[i] = (3 * i) % 5;
  const Objective objective{[&] {
    loss.forward(rig.forward, logits, labels, {}, {});
    return static_cast<double>(loss.loss().as<float>()[0]);
  }};
  loss.forward(rig.forward, logits, labels, {}, dlogits);
  check_gradient(objective, logits, dlogits);
}
