#include "apps/training/train_step.h"

#include <cmath>
#include <cstring>

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

// The floats of the board. The first four are summed over the ranks; those before kLossScale come from the
// host.
enum : int {
  kLoss,
  kSkip,  // above 0: the step changes nothing
  kSignals,
  kReduced = kSignals + static_cast<int>(kSignalFlags),
  kOwnSkip = kReduced,  // kSkip before the ranks' sum
  kUsedScale,           // kLossScale before this step changed it
  kLearningRate,
  kLossScale,
  kGoodSteps,
  kFloats,
};
constexpr std::int64_t kBoardBytes = kFloats * static_cast<std::int64_t>(sizeof(float));
static_assert(kBoardBytes <= TrainStep::kReducedBytes);

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
      board_memory_(communicator.allocator(), kBoardBytes),
      reducer_(communicator, context.stream, plan(store, settings.bucket_caps_bytes), names(store),
               store.all_gradients().as<float>(), {settings.overlap, context.tracer}),
      loss_("loss", static_cast<float>(settings.label_smoothing)),
      correct_(context.backend.allocator(), size_of(DType::i32)),
      saved_statistics_(context.backend.allocator(), store.all_buffers().bytes()),
      failed_statistics_(context.backend.allocator(), store.all_buffers().bytes()) {
  loss_.layout(board(kLoss), {correct_.data(), DType::i32, Layout::flat, Shape{1}});
  control_ = {board(kLearningRate), board(kSkip), settings.loss_scaling ? board(kLossScale) : TensorView{}};
  for (Slot& slot : slots_) slot.memory = Buffer(context.backend.host_allocator(), 2 * kBoardBytes);
  set_loss_scale({});
}

TrainStep::~TrainStep() {
  try {
    context_.stream.synchronize();
  } catch (const std::exception&) {  // of work that somebody waited for, and was told
  }
}

TensorView TrainStep::board(int position) const {
  return {static_cast<float*>(board_memory_.data()) + position, DType::f32, Layout::flat, Shape{1}};
}

void TrainStep::set_loss_scale(const LossScale& state) {
  const float values[] = {state.scale, state.good_steps};
  context_.backend.copy_to_device(context_.stream, board(kLossScale).data, values, sizeof values);
  context_.stream.synchronize();
}

TrainStep::Result TrainStep::run(const Request& request) {
  enqueue(request);
  return collect();
}

void TrainStep::enqueue(const Request& request) {
  LOCKSTEP_CHECK(pending() <= lag(), "{} steps are pending", pending());
  Pending step;
  step.begin = Clock::now();
  step.slot = next_slot_;
  step.communicate = request.communicate;
  step.result.learning_rate = request.learning_rate;
  step.result.samples = static_cast<std::int64_t>(request.samples.size());
  next_slot_ = (next_slot_ + 1) % slots_.size();
  Slot& slot = slots_[step.slot];

  auto* to_board = static_cast<float*>(slot.memory.data());
  std::memset(to_board, 0, kBoardBytes);
  set_signal_flags(request.signal, to_board + kSignals);
  to_board[kLearningRate] = static_cast<float>(request.learning_rate);
  context_.backend.copy_to_device(context_.stream, board_memory_.data(), to_board,
                                  kLossScale * static_cast<std::int64_t>(sizeof(float)));
  data_.select(context_, request.samples, request.epoch);
  run_or_replay(request, step.result);
  context_.backend.copy_to_host(context_.stream, to_board + kFloats, board_memory_.data(), kBoardBytes);
  slot.done = context_.stream.record();
  pending_.push_back(std::move(step));
}

// Whatever differs from step to step lies in memory, so that one recording serves all steps of a batch size.
// A step that made scratch memory grow cannot be recorded, and what was recorded before points to the old
// memory.
void TrainStep::run_or_replay(const Request& request, Result& result) {
  if (!settings_.record) return take(request, result);
  Recorded& recorded = recorded_[{result.samples, request.communicate}];
  const std::int64_t generation = context_.backend.scratch_generation();
  if (recorded.generation != generation) {
    recorded.recording.reset();
    take(request, result);
    recorded.generation = context_.backend.scratch_generation();
    return;
  }
  if (!recorded.recording) recorded.recording = record(request, result);
  recorded.recording->replay(context_.stream);
  if (request.communicate) communicator_.watch("a step's collectives", context_.stream.record());
}

std::unique_ptr<Recording> TrainStep::record(const Request& request, Result& result) {
  context_.stream.begin_recording();
  try {
    take(request, result);
  } catch (...) {
    // A stream that still records refuses whatever the destructors ask of it.
    try {
      context_.stream.end_recording();
    } catch (const std::exception&) {  // the recording was broken by the error that is on its way
    }
    throw;
  }
  return context_.stream.end_recording();
}

void TrainStep::take(const Request& request, Result& result) {
  updated_buckets_ = 0;
  forward(request, result);
  backward(request, result);
}

void TrainStep::forward(const Request& request, Result& result) {
  const auto begin = Clock::now();
  const Span span(context_.tracer, "forward", "step");
  const TensorView statistics = store_.all_buffers();
  context_.backend.copy_on_device(context_.stream, saved_statistics_.data(), statistics.data,
                                  statistics.bytes());
  data_.augment(context_, true, settings_.seed, model_.input(result.samples));
  const TensorView logits = model_.forward(context_, result.samples, Mode::training);
  loss_.forward({context_, Mode::training}, logits, data_.labels(), control_.gradient_scale,
                model_.logits_gradient(result.samples));
  context_.backend.non_finite_check(context_.stream, board(kLoss), board(kSkip));
  context_.backend.copy_on_device(context_.stream, board(kOwnSkip).data, board(kSkip).data, sizeof(float));
  if (request.communicate) {
    communicator_.stream().wait(context_.stream.record());
    communicator_.all_reduce(board(kLoss).as<float>(), kReduced, ReduceOp::sum, "outcome of the step");
  }
  result.ms_forward = milliseconds_since(begin);
}

void TrainStep::backward(const Request& request, Result& result) {
  const auto begin = Clock::now();
  {
    const Span span(context_.tracer, "backward", "step");
    reducer_.begin(request.communicate);
    model_.backward(context_, result.samples, Mode::training, GradMode::overwrite,
                    [&](int first, int last) { on_gradients_ready(first, last, request, result); });
  }
  result.ms_backward = milliseconds_since(begin) - result.ms_optimizer;

  // Launched buckets are updated as they arrive. What finish() launches (no overlap) or what did not travel
  // follows. The outcome travels before the first bucket, so it is there when that one is.
  while (!settings_.loss_scaling && updated_buckets_ < static_cast<int>(reducer_.launch_order().size())) {
    context_.stream.wait(reducer_.reduced(updated_buckets_));
    update(updated_buckets_, result);
  }
  reducer_.finish();
  if (settings_.loss_scaling) check_gradients();
  while (updated_buckets_ < static_cast<int>(reducer_.buckets().size())) update(updated_buckets_, result);
  if (settings_.loss_scaling) {
    context_.backend.copy_on_device(context_.stream, board(kUsedScale).data, board(kLossScale).data,
                                    sizeof(float));
    context_.backend.update_loss_scale(context_.stream, kScaling, board(kSkip), board(kLossScale),
                                       board(kGoodSteps));
  }
  undo_statistics();
}

void TrainStep::on_gradients_ready(int first, int last, const Request& request, Result& result) {
  reducer_.on_gradients_ready(first, last);
  if (communicator_.size() > 1 || !request.communicate || settings_.loss_scaling) return;
  while (updated_buckets_ < static_cast<int>(reducer_.launch_order().size())) {
    update(updated_buckets_, result);
  }
}

// Buckets are launched, and so updated, in index order: the number of updates is the next bucket.
void TrainStep::update(int bucket, Result& result) {
  ++updated_buckets_;
  const auto begin = Clock::now();
  const Span span(context_.tracer, "update", "step");
  const Bucket& slice = reducer_.buckets()[static_cast<std::size_t>(bucket)];
  optimizer_.update(context_, control_, slice.first, slice.last);
  result.ms_optimizer += milliseconds_since(begin);
}

// The averages are the same bits on every rank, so all ranks find the same.
void TrainStep::check_gradients() {
  context_.backend.non_finite_check(context_.stream, store_.all_gradients(), board(kSkip));
}

// The forward pass of a skipped step has already moved the running statistics: they go back. What it had made
// of them tells which activation was the first that is not finite.
void TrainStep::undo_statistics() {
  const TensorView statistics = store_.all_buffers();
  TensorView saved = statistics, failed = statistics;
  saved.data = saved_statistics_.data();
  failed.data = failed_statistics_.data();
  context_.backend.copy_if(context_.stream, board(kSkip), statistics, failed);
  context_.backend.copy_if(context_.stream, board(kSkip), saved, statistics);
}

TrainStep::Result TrainStep::collect() {
  LOCKSTEP_CHECK(!pending_.empty(), "no step is pending");
  const Pending step = std::move(pending_.front());
  pending_.pop_front();
  slots_[step.slot].done.synchronize();
  Result result = step.result;
  read(step, result);
  result.ms_step = milliseconds_since(std::max(step.begin, collected_));
  collected_ = Clock::now();
  return result;
}

void TrainStep::read(const Pending& step, Result& result) {
  const float* board = static_cast<const float*>(slots_[step.slot].memory.data()) + kFloats;
  result.loss = static_cast<double>(board[kLoss]) / (step.communicate ? communicator_.size() : 1);
  result.skipped = board[kSkip] > 0;
  result.own_loss_finite = !(board[kOwnSkip] > 0);
  result.overflow = result.skipped && std::isfinite(board[kLoss]);
  result.signal = signal_of_flags(board + kSignals);
  result.loss_scale = {board[kLossScale], board[kGoodSteps]};
  if (!result.own_loss_finite) {
    result.non_finite = first_non_finite(context_, model_, store_, failed_statistics_);
  }
  result.overflow_at_floor = result.overflow && board[kUsedScale] <= kScaling.floor;
  if (result.overflow_at_floor) result.non_finite = first_non_finite_gradient(context_, model_, store_);
}

}  // namespace lockstep
