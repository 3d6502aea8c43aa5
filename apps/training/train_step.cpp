#include "apps/training/train_step.h"

#include <chrono>
#include <cmath>

#include "apps/training/non_finite.h"
#include "apps/training/signals.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::vector<Bucket> plan(const ParameterStore& store, const std::vector<std::int64_t>& caps_bytes) {
  std::vector<std::int64_t> numels;
  for (const Parameter& parameter : store.parameters()) numels.push_back(parameter.numel());
  return plan_buckets(numels, store.offsets(), caps_bytes);
}

std::vector<std::string> names(const ParameterStore& store) {
  std::vector<std::string> all;
  for (const Parameter& parameter : store.parameters()) all.push_back(parameter.name);
  return all;
}

constexpr std::int64_t kOutcomeFloats = 2 + kSignalFlags;

}  // namespace

TrainStep::TrainStep(Context& context, Communicator& communicator, ResNet& model, ParameterStore& store,
                     DeviceDataset& data, const Settings& settings)
    : context_(context),
      communicator_(communicator),
      model_(model),
      store_(store),
      data_(data),
      settings_(settings),
      optimizer_(store, settings.optimizer),
      outcome_memory_(communicator.allocator(), kOutcomeFloats * size_of(DType::f32)),
      reducer_(communicator, context.stream, plan(store, settings.bucket_caps_bytes), names(store),
               store.all_gradients().as<float>(), {settings.overlap, context.tracer}),
      loss_("loss", static_cast<float>(settings.label_smoothing)),
      loss_memory_(context.backend.allocator(), SoftmaxCrossEntropy::kMemory),
      saved_statistics_(context.backend.allocator(), store.all_buffers().bytes()) {
  loss_.layout(loss_memory_);
}

TrainStep::Result TrainStep::run(const Request& request) {
  const auto begin = Clock::now();
  Result result;
  outcome_known_ = false;
  outcome_reduced_ = {};
  updated_buckets_ = 0;
  forward(request, result);
  backward(request, result);
  context_.stream.synchronize();
  result.ms_step = milliseconds_since(begin);
  return result;
}

void TrainStep::forward(const Request& request, Result& result) {
  const auto begin = Clock::now();
  const Span span(context_.tracer, "forward", "step");
  const TensorView statistics = store_.all_buffers();
  context_.backend.copy_on_device(context_.stream, saved_statistics_.data(), statistics.data,
                                  statistics.bytes());
  const auto n = static_cast<std::int64_t>(request.samples.size());
  data_.select(context_, request.samples);
  data_.augment(context_, true, settings_.seed, request.epoch, model_.input(n));
  logits_ = model_.forward(context_, n, Mode::training);
  loss_.forward({context_, Mode::training}, logits_, data_.labels(), model_.logits_gradient(n));

  float loss = 0;
  context_.backend.copy_to_host(context_.stream, &loss, loss_.loss().data, sizeof loss);
  context_.stream.synchronize();
  result.own_loss_finite = std::isfinite(loss);
  auto* outcome = static_cast<float*>(outcome_memory_.data());
  outcome[0] = loss;
  outcome[1] = result.own_loss_finite ? 0.0f : 1.0f;
  set_signal_flags(request.signal, outcome + 2);
  if (request.communicate) {
    communicator_.stream().wait(context_.stream.record());
    communicator_.all_reduce(outcome, kOutcomeFloats, ReduceOp::sum, "outcome of the step");
    outcome_reduced_ = communicator_.stream().record();
  }
  result.ms_forward = milliseconds_since(begin);
}

void TrainStep::backward(const Request& request, Result& result) {
  const auto begin = Clock::now();
  {
    const Span span(context_.tracer, "backward", "step");
    reducer_.begin(request.communicate);
    model_.backward(context_, static_cast<std::int64_t>(request.samples.size()), Mode::training,
                    GradMode::overwrite,
                    [&](int first, int last) { on_gradients_ready(first, last, request, result); });
  }
  result.ms_backward = milliseconds_since(begin) - result.ms_optimizer;

  // Launched buckets are updated as they arrive. What finish() launches (no overlap) or what did not travel
  // follows.
  while (updated_buckets_ < static_cast<int>(reducer_.launch_order().size())) {
    context_.stream.wait(reducer_.reduced(updated_buckets_));
    update(updated_buckets_, request, result);
  }
  reducer_.finish();
  while (updated_buckets_ < static_cast<int>(reducer_.buckets().size()))
    update(updated_buckets_, request, result);
  if (result.skipped) undo_statistics(result);
}

void TrainStep::on_gradients_ready(int first, int last, const Request& request, Result& result) {
  reducer_.on_gradients_ready(first, last);
  if (communicator_.size() > 1 || !request.communicate) return;
  while (updated_buckets_ < static_cast<int>(reducer_.launch_order().size())) {
    update(updated_buckets_, request, result);
  }
}

// Buckets are launched, and so updated, in index order: the number of updates is the next bucket.
void TrainStep::update(int bucket, const Request& request, Result& result) {
  if (!outcome_known_) read_outcome(request, result);
  ++updated_buckets_;
  if (result.skipped) return;
  const auto begin = Clock::now();
  const Span span(context_.tracer, "update", "step");
  const Bucket& slice = reducer_.buckets()[static_cast<std::size_t>(bucket)];
  optimizer_.update(context_, slice.first, slice.last, request.learning_rate);
  result.ms_optimizer += milliseconds_since(begin);
}

void TrainStep::read_outcome(const Request& request, Result& result) {
  outcome_reduced_.synchronize();
  const auto* outcome = static_cast<const float*>(outcome_memory_.data());
  result.loss = static_cast<double>(outcome[0]) / (request.communicate ? communicator_.size() : 1);
  result.skipped = outcome[1] > 0;
  result.signal = signal_of_flags(outcome + 2);
  outcome_known_ = true;
}

// The forward pass of a skipped step has already moved the running statistics: they go back. Before that they
// tell which activation was the first that is not finite.
void TrainStep::undo_statistics(Result& result) {
  if (!result.own_loss_finite) result.non_finite = first_non_finite(context_, model_, store_, logits_);
  const TensorView statistics = store_.all_buffers();
  context_.backend.copy_on_device(context_.stream, statistics.data, saved_statistics_.data(),
                                  statistics.bytes());
}

}  // namespace lockstep
