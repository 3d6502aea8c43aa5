// What a wrong call says. One case for each kind of check; every op goes through the same few checks.
#include "kernels/contracts.h"

#include "kernels/host_tensor.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::internal);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("contracts: messages name op and tensor") {
  const Reference r;
  const ConvShape s{.n = 1, .h = 2, .w = 2, .c_in = 1, .c_out = 3};
  const auto x = r.image({1, 2, 2, 1}), w = r.weight({3, 1, 1, 1}), y = r.image({1, 2, 2, 3});
  const auto wrong = r.weight({1, 1, 1, 3}), half = r.weight({3, 1, 1, 1}, {}, DType::bf16);
  CHECK(message_of([&] { contract::conv2d_forward(s, x, w, y); }) == "no error");
  CHECK(message_of([&] { contract::conv2d_forward(s, x, wrong, y); }) ==
        "conv2d_forward: tensor w is 1x1x1x3, expected 3x1x1x1");
  CHECK(message_of([&] { contract::conv2d_forward(s, x, half, y); }) ==
        "conv2d_forward: tensor w is bf16, expected f32");
  CHECK(message_of([&] { contract::conv2d_forward(s, x, {}, y); }) == "conv2d_forward: tensor w is required");
  CHECK(message_of([&] {
          contract::conv2d_forward({.n = 1, .h = 2, .w = 2, .c_in = 1, .c_out = 3, .kernel = 3}, x, w, y);
        }) == "conv2d_forward: kernel 3 is larger than the padded image 2x2");
}

TEST_CASE("contracts: dw, masters and statistics are f32 whatever the compute type") {
  const Reference r;
  const ConvShape s{.n = 1, .h = 1, .w = 1, .c_in = 2, .c_out = 2};
  const auto x = r.image({1, 1, 1, 2}, {}, DType::bf16), dy = r.image({1, 1, 1, 2}, {}, DType::bf16);
  const auto dw = r.weight({2, 1, 1, 2}, {}, DType::bf16);
  CHECK(message_of([&] { contract::conv2d_backward_weight(s, x, dy, dw); }) ==
        "conv2d_backward_weight: tensor dw is bf16, expected f32");
  const auto w = r.flat({2}, {}, DType::bf16), v = r.flat({2}), rate = r.flat({1});
  CHECK(message_of([&] {
          contract::sgd_step({rate, {}, {}}, w, v, v, {});
        }) == "sgd_step: tensor w is bf16, expected f32");
}

TEST_CASE("contracts: overlap is refused where the op does not allow it") {
  const Reference r;
  const auto a = r.flat({8}), rate = r.flat({1});
  TensorView low = a.view().first(4), middle = low, high = low;
  middle.data = static_cast<float*>(low.data) + 2;
  high.data = static_cast<float*>(low.data) + 4;
  CHECK(message_of([&] { contract::relu_forward(low, low); }) == "no error");
  CHECK(message_of([&] { contract::relu_forward(low, high); }) == "no error");
  CHECK(message_of([&] { contract::relu_forward(low, middle); }) ==
        "relu_forward: tensors y and x overlap in part");
  CHECK(message_of([&] { contract::relu_backward(low, high, low); }) ==
        "relu_backward: tensors dx and y overlap");
  CHECK(message_of([&] {
          contract::sgd_step({rate, {}, {}}, low, high, low, {});
        }) == "sgd_step: tensors w and v overlap");
  CHECK(message_of([&] { contract::copy_on_device(high.data, low.data, low.bytes()); }) == "no error");
  CHECK(message_of([&] { contract::copy_on_device(middle.data, low.data, low.bytes()); }) ==
        "copy_on_device: tensors dst and src overlap");
  CHECK(message_of([&] { contract::copy_on_device(low.data, nullptr, 4); }) ==
        "copy_on_device: null pointer for 4 bytes");
  CHECK(message_of([&] { contract::copy_on_device(nullptr, nullptr, 0); }) == "no error");
}

TEST_CASE("contracts: batch norm needs two rows and, with ReLU, y") {
  const Reference r;
  const auto one = r.image({1, 1, 1, 4}), two = r.image({2, 1, 1, 4}), dx = r.image({2, 1, 1, 4});
  const auto c = r.flat({4}), d = r.flat({4}), e = r.flat({4}), f = r.flat({4});
  CHECK(message_of([&] { contract::batch_norm_forward_training(one, c, c, {}, c, d, e, f, one); }) ==
        "batch_norm_forward_training: tensor x (1x1x1x4) has one value a channel; training statistics need "
        "two");
  const BatchNormOptions with_relu{.relu = true};
  CHECK(message_of([&] { contract::batch_norm_backward(with_relu, two, {}, two, c, c, d, dx, {}, e, f); }) ==
        "batch_norm_backward: tensor y is required");
  CHECK(message_of([&] { contract::batch_norm_backward({}, two, {}, two, c, c, d, dx, {}, e, f); }) ==
        "no error");
  CHECK(message_of([&] { contract::batch_norm_backward({}, two, {}, two, c, c, d, dx, dx, e, f); }) ==
        "batch_norm_backward: tensors dx and dresidual overlap");
}

TEST_CASE("contracts: pooling, loss, augmentation and cast") {
  const Reference r;
  const auto x = r.image({1, 2, 2, 1}), y = r.image({1, 1, 1, 1}),
             index = r.image({1, 1, 1, 1}, {}, DType::u8);
  CHECK(message_of([&] {
          contract::max_pool_forward({1, 2, 2, 1, 2, 2, 2}, x, y, index);
        }) == "max_pool_forward: padding 2 is more than half the kernel 2: a window could be empty");
  CHECK(message_of([&] {
          contract::max_pool_forward({1, 2, 2, 1, 2, 2, 0}, x, y, y);
        }) == "max_pool_forward: tensor index is f32, expected u8");
  const auto logits = r.flat({2, 3}), loss = r.flat({1}), count = r.flat({1}, {}, DType::i32);
  const auto labels = r.flat({3}, {}, DType::i32);
  CHECK(message_of([&] { contract::softmax_cross_entropy(logits, labels, 0, {}, loss, count, {}); }) ==
        "softmax_cross_entropy: tensor labels is 3, expected 2");
  const auto images = r.flat({1, 3, 2, 2}, {}, DType::u8), picture = r.image({1, 2, 2, 1});
  CHECK(message_of([&] { contract::augment_normalize({}, images, count, count, picture); }) ==
        "augment_normalize: tensor y is 1x2x2x1, expected 1x2x2x3");
  CHECK(message_of([&] {
          contract::augment_normalize({}, images, count, {}, r.image({1, 2, 2, 3}));
        }) == "augment_normalize: tensor epoch is required");
  CHECK(message_of([&] { contract::cast(x, y); }) == "cast: tensors x and y are both f32");
  CHECK(message_of([&] { contract::copy_if(loss, y, index); }) == "copy_if: tensor y is u8, expected f32");
  CHECK(message_of([&] { contract::update_loss_scale(loss, loss, y); }) ==
        "update_loss_scale: tensor good_steps is 1x1x1x1, expected 1");
}

TEST_CASE("backends: the factory gives what the device says, a stub says how to get it") {
  CHECK(make_backend({DeviceKind::reference})->name() == std::string("reference"));
  if (has_cpu_backend()) {
    CHECK(make_backend({DeviceKind::cpu})->name() == std::string("cpu"));
    CHECK(cpu_backend_libraries() != "not built in");
  } else {
    CHECK_THROWS_AS(make_backend({DeviceKind::cpu}), Error);
    CHECK(cpu_backend_libraries() == "not built in");
  }
}
