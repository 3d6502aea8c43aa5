#include "layers/residual_block.h"

#include <algorithm>

#include "support/check_gradient.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Case {
  const char* what;
  bool bottleneck;
  std::int64_t c_in, width, stride;
  bool identity;
};

// A block with its memory. run() is one forward and one backward from the gradient `dy`.
struct Rig : Harness {
  HostAllocator host;
  ParameterStore store;
  Arena arena{host, 1 << 22};
  ResidualBlock block;
  std::vector<int> announced;
  TensorView begin, x, y, dy, gradient, other, dx;
  std::int64_t end = 0;

  explicit Rig(const Case& c)
      : block(c.bottleneck ? make_bottleneck("block", c.c_in, c.width, c.stride)
                           : make_basic_block("block", c.c_in, c.width, c.stride)) {
    block.declare_parameters(store);
    block.declare_buffers(store);
    store.allocate(host, host, DType::f32);
    for (int i = 0; i < store.count(); ++i) {
      Philox(3, RandomStream::init)
          .fill_normal(static_cast<std::uint64_t>(i), 0.2f, 0.5f, values(store.weight(i)));
    }
    for (std::size_t i = 0; i < store.buffers().size(); ++i) {
      std::ranges::fill(values(store.buffer(static_cast<int>(i))), 0.2f + store.buffers()[i].initial);
    }
    x = random(Layout::nhwc, Shape{3, 3, 3, c.c_in}, 1);
    begin = arena.tensor(DType::f32, Layout::flat, Shape{1});
    y = block.layout(arena, x);
    end = arena.used();
    const auto elements = block.scratch_elements();
    block.use_scratch({tensor(Layout::flat, Shape{elements[0]}), tensor(Layout::flat, Shape{elements[1]})});
    dy = random(Layout::nhwc, y.shape, 2);
    gradient = tensor(Layout::nhwc, y.shape);
    other = random(Layout::flat, Shape{x.numel() + 5}, 3);
  }

  // Everything that forward writes.
  std::span<const float> activations() const {
    return {begin.as<float>(), static_cast<std::size_t>(end / size_of(DType::f32))};
  }

  void run(Mode mode, GradMode mode_of_gradients, std::int64_t n) {
    announced.clear();
    std::ranges::copy(values(dy), values(gradient).begin());
    const GradientsReady ready = [&](int first, int last) {
      for (int i = first; i <= last; ++i) announced.push_back(i);
    };
    block.forward({context, mode}, x.first(n));
    dx = block.backward({context, mode, mode_of_gradients, ready}, gradient.first(n), other);
  }
};

}  // namespace

TEST_CASE("residual blocks: all gradients, announced in the order of declaration") {
  const Case c = GENERATE(
      Case{"basic, identity", false, 4, 4, 1, true}, Case{"basic, stride 2", false, 4, 6, 2, false},
      Case{"bottleneck, identity", true, 8, 2, 1, true}, Case{"bottleneck, wider", true, 4, 2, 1, false},
      Case{"bottleneck, stride 2", true, 4, 3, 2, false});
  const Mode mode = GENERATE(Mode::training, Mode::frozen);
  CAPTURE(c.what, mode == Mode::frozen);
  Rig rig(c);
  rig.run(mode, GradMode::overwrite, 3);
  CHECK(rig.dx.shape == rig.x.shape);
  CHECK(rig.dx.data == (c.identity ? rig.gradient.data : rig.other.data));
  REQUIRE(static_cast<int>(rig.announced.size()) == rig.store.count());
  CHECK(std::ranges::is_sorted(rig.announced));

  const Objective objective{[&] {
                              return dot(rig.block.forward({rig.context, mode}, rig.x), rig.dy);
                            },
                            [&] { return zeros(rig.activations()); }};
  check_gradient(objective, rig.x, rig.dx);
  for (int i = 0; i < rig.store.count(); ++i) {
    CAPTURE(rig.store.parameter(i).name);
    check_gradient(objective, rig.store.weight(i), rig.store.gradient(i), 12);
  }
}

TEST_CASE("residual blocks: accumulated gradients of parameters are a sum, those of the input are not") {
  Rig rig({"", true, 8, 2, 1, true});
  rig.run(Mode::training, GradMode::overwrite, 3);
  const std::vector<float> once(values(rig.store.all_gradients()).begin(),
                                values(rig.store.all_gradients()).end());
  const std::vector<float> dx(values(rig.dx).begin(), values(rig.dx).end());
  rig.run(Mode::training, GradMode::accumulate, 3);
  for (std::size_t i = 0; i < once.size(); ++i) {
    REQUIRE(values(rig.store.all_gradients())[i] == Approx(2 * once[i]).margin(1e-6));
  }
  CHECK(std::ranges::equal(values(rig.dx), dx));
}

TEST_CASE("residual blocks: a part of a batch does not depend on the rest of the buffers") {
  const Case c{"", true, 4, 3, 2, false};
  Rig part(c), rest(c);
  rest.run(Mode::training, GradMode::overwrite, 3);  // leaves its values behind in rows 0..2
  rest.run(Mode::training, GradMode::overwrite, 2);
  part.run(Mode::training, GradMode::overwrite, 2);
  CHECK(part.dx.shape[0] == 2);
  CHECK(std::ranges::equal(values(part.dx), values(rest.dx)));
  CHECK(std::ranges::equal(values(part.store.all_gradients()), values(rest.store.all_gradients())));
}
