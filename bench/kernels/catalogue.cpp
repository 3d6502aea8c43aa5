#include "bench/kernels/catalogue.h"

#include <algorithm>

#include "bench/kernels/recorder.h"

namespace lockstep::bench {
namespace {

class Walk {
 public:
  Walk(const ResNetOptions& network, std::int64_t batch, DType compute)
      : batch_(batch), compute_(compute), model_(network, store_) {
    if (model_.smallest_batch_norm_rows(batch) < 2) {
      fail(ExitCode::usage,
           "--batch-size {}: with pictures of {}x{} a batch norm would see one value a channel, which has no "
           "variance: choose a larger batch",
           batch, network.height, network.width);
    }
    store_.allocate(recorder_.allocator(), recorder_.allocator(), compute);
    model_.layout(activations_, batch, compute);
    images_ = tensor(DType::u8, {batch, 3, network.height, network.width});
  }

  // As in apps/training/train_step.cpp, with one update for all parameters.
  void training_step() {
    recorder_.count(true);
    const TensorView statistics = store_.all_buffers();
    const TensorView saved = tensor(DType::f32, statistics.shape),
                     failed = tensor(DType::f32, statistics.shape);
    const TensorView skip = number(DType::f32), loss = number(DType::f32);
    recorder_.copy_on_device(*stream_, saved.data, statistics.data, statistics.bytes());
    AugmentOptions augment;
    std::fill(std::begin(augment.mean), std::end(augment.mean), 0.45f);
    std::fill(std::begin(augment.inverse_deviation), std::end(augment.inverse_deviation), 4.0f);
    recorder_.augment_normalize(*stream_, augment, images_, tensor(DType::i32, {batch_}), number(DType::i32),
                                model_.input(batch_));
    const TensorView logits = model_.forward(context_, batch_, Mode::training);
    recorder_.softmax_cross_entropy(*stream_, logits, tensor(DType::i32, {batch_}), 0, {}, loss,
                                    number(DType::i32), model_.logits_gradient(batch_));
    recorder_.non_finite_check(*stream_, loss, skip);
    backward(Mode::training);
    const int last = store_.count() - 1;
    const SgdOptions sgd{.momentum = 0.9f, .weight_decay = 5e-4f};
    recorder_.sgd_step(*stream_, sgd, {number(DType::f32), skip, {}}, store_.all_weights(),
                       store_.all_gradients(), store_.all_momenta(), store_.workings(0, last));
    recorder_.copy_if(*stream_, skip, statistics, failed);
    recorder_.copy_if(*stream_, skip, saved, statistics);
  }

  void what_a_step_leaves_out() {
    recorder_.count(false);
    model_.forward(context_, batch_, Mode::evaluation);
    model_.forward(context_, batch_, Mode::frozen);
    backward(Mode::frozen);

    const TensorView x = stem_output(), other = tensor(x.dtype, x.shape, x.layout);
    recorder_.relu_forward(*stream_, x, other);
    recorder_.relu_backward(*stream_, x, other, tensor(x.dtype, x.shape, x.layout));
    const PoolShape pool{batch_, x.shape[1], x.shape[2], x.shape[3]};
    const Shape pooled{pool.n, pool.out_h(), pool.out_w(), pool.c};
    const TensorView y = tensor(x.dtype, pooled, x.layout), index = tensor(DType::u8, pooled, x.layout);
    recorder_.max_pool_forward(*stream_, pool, x, y, index);
    recorder_.max_pool_backward(*stream_, pool, y, index, other);

    const TensorView weights = store_.all_weights(), copy = tensor(DType::f32, weights.shape);
    recorder_.update_loss_scale(*stream_, {}, number(DType::f32), number(DType::f32), number(DType::f32));
    recorder_.non_finite_check(*stream_, store_.all_gradients(), number(DType::f32));
    recorder_.cast(*stream_, weights, tensor(compute_ == DType::f32 ? DType::bf16 : compute_, weights.shape));
    recorder_.copy_if(*stream_, number(DType::f32), weights, copy);
    recorder_.sum_of_squares(*stream_, store_.all_gradients(), number(DType::f32));
    recorder_.checksum(*stream_, weights, tensor(DType::i32, {2}));
    recorder_.copy_on_device(*stream_, copy.data, weights.data, weights.bytes());
    recorder_.copy_to_device(*stream_, weights.data, copy.data, weights.bytes());
    recorder_.copy_to_host(*stream_, copy.data, weights.data, weights.bytes());
    recorder_.fill_zero(*stream_, weights.data, weights.bytes());
  }

  std::vector<Call> calls() const { return recorder_.calls(); }

 private:
  void backward(Mode mode) {
    model_.backward(context_, batch_, mode, GradMode::overwrite, [](int, int) {});
  }
  TensorView tensor(DType type, const Shape& shape, Layout layout = Layout::flat) {
    return {recorder_.allocator().allocate(shape.numel() * size_of(type)), type, layout, shape};
  }
  TensorView number(DType type) { return tensor(type, {1}); }
  TensorView stem_output() const {
    for (const Call& call : recorder_.calls()) {
      if (call.op == std::string("conv2d_forward")) return call.operands.back().view;
    }
    fail(ExitCode::internal, "the model has no convolution");
  }

  std::int64_t batch_;
  DType compute_;
  Recorder recorder_;
  std::unique_ptr<Stream> stream_ = recorder_.make_compute_stream();
  Context context_{recorder_, *stream_};
  ParameterStore store_;
  ResNet model_;
  Arena activations_;  // measuring: no memory
  TensorView images_;
};

}  // namespace

std::vector<Call> catalogue(const ResNetOptions& network, std::int64_t batch, DType compute) {
  Walk walk(network, batch, compute);
  walk.training_step();
  walk.what_a_step_leaves_out();
  std::vector<Call> calls = walk.calls(), sorted;
  while (!calls.empty()) {
    const std::string op = calls.front().op;
    const auto rest =
        std::stable_partition(calls.begin(), calls.end(), [&](const Call& call) { return op == call.op; });
    sorted.insert(sorted.end(), calls.begin(), rest);
    calls.erase(calls.begin(), rest);
  }
  return sorted;
}

}  // namespace lockstep::bench
