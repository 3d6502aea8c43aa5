#include "apps/training/evaluate.h"

#include <algorithm>

#include "data/sampler.h"

namespace lockstep {

Evaluation evaluate(Engine& engine, const StopSignals& signals) {
  Context& context = engine.context();
  const Span span(context.tracer, "evaluate", "epoch");
  Communicator& communicator = engine.communicator();
  DeviceDataset& data = engine.test_data();
  const std::vector<std::int64_t> indices =
      evaluation_indices(data.host().size(), communicator.size(), communicator.rank());
  SoftmaxCrossEntropy loss("evaluation loss", 0.0f);
  Arena memory(context.backend.allocator(), SoftmaxCrossEntropy::kMemory);
  loss.layout(memory);

  double sums[3 + kSignalFlags] = {};  // loss, correct, samples, signals
  const auto count = static_cast<std::int64_t>(indices.size());
  for (std::int64_t step = 0; engine.options().batch_size * step < count && signals.arrived() == 0; ++step) {
    const auto samples = engine.batch(indices, step);
    const auto n = static_cast<std::int64_t>(samples.size());
    data.select(context, samples, 0);
    data.augment(context, false, 0, engine.model().input(n));
    const TensorView logits = engine.model().forward(context, n, Mode::evaluation);
    loss.forward({context, Mode::evaluation}, logits, data.labels(), {}, {});
    float batch_loss = 0;
    std::int32_t batch_correct = 0;
    context.backend.copy_to_host(context.stream, &batch_loss, loss.loss().data, sizeof batch_loss);
    context.backend.copy_to_host(context.stream, &batch_correct, loss.correct().data, sizeof batch_correct);
    context.stream.synchronize();
    sums[0] += static_cast<double>(batch_loss) * static_cast<double>(n);
    sums[1] += batch_correct;
    sums[2] += static_cast<double>(n);
  }
  set_signal_flags(signals.arrived(), sums + 3);
  communicator.all_reduce_host(sums, std::size(sums), ReduceOp::sum, "evaluation");

  Evaluation result;
  result.correct = static_cast<std::int64_t>(sums[1]);
  result.total = static_cast<std::int64_t>(sums[2]);
  result.loss = sums[0] / sums[2];
  result.accuracy = sums[1] / sums[2];
  result.signal = signal_of_flags(sums + 3);
  return result;
}

}  // namespace lockstep
