#include "apps/training/device_dataset.h"

namespace lockstep {

DeviceDataset::DeviceDataset(Context& context, const Dataset& dataset, bool host_memory, std::int64_t batch)
    : dataset_(dataset), batch_memory_(context.backend.allocator(), 2 * batch * size_of(DType::i32)) {
  const auto bytes = static_cast<std::int64_t>(dataset.images.size());
  void* data =
      const_cast<std::uint8_t*>(dataset.images.data());  // a view has one kind of pointer; ops only read it
  if (!host_memory) {
    image_memory_ = Buffer(context.backend.allocator(), bytes);
    context.backend.copy_to_device(context.stream, image_memory_.data(), data, bytes);
    context.stream.synchronize();
    data = image_memory_.data();
  }
  images_ = {data, DType::u8, Layout::flat,
             Shape{dataset.size(), dataset.channels, dataset.height, dataset.width}};
}

void DeviceDataset::select(Context& context, std::span<const std::int64_t> indices) {
  const auto n = static_cast<std::int64_t>(indices.size());
  LOCKSTEP_CHECK(2 * n * size_of(DType::i32) <= batch_memory_.bytes(), "a batch of {} samples", n);
  staged_.clear();
  for (const std::int64_t index : indices) staged_.push_back(static_cast<std::int32_t>(index));
  for (const std::int64_t index : indices)
    staged_.push_back(dataset_.labels[static_cast<std::size_t>(index)]);
  auto* memory = static_cast<std::int32_t*>(batch_memory_.data());
  context.backend.copy_to_device(context.stream, memory, staged_.data(), 2 * n * size_of(DType::i32));
  samples_ = {memory, DType::i32, Layout::flat, Shape{n}};
  labels_ = {memory + n, DType::i32, Layout::flat, Shape{n}};
}

void DeviceDataset::augment(Context& context, bool train, std::uint64_t seed, std::int64_t epoch,
                            const TensorView& input) const {
  AugmentOptions options;
  options.train = train;
  options.seed = seed;
  options.epoch = epoch;
  for (int channel = 0; channel < 3; ++channel) {
    options.mean[channel] = dataset_.mean[channel];
    options.inverse_deviation[channel] = 1.0f / dataset_.deviation[channel];
  }
  context.backend.augment_normalize(context.stream, options, images_, samples_, input);
}

}  // namespace lockstep
