#include "apps/training/device_dataset.h"

#include <exception>

namespace lockstep {

DeviceDataset::DeviceDataset(Context& context, const Dataset& dataset, bool host_memory, std::int64_t batch)
    : dataset_(dataset), batch_memory_(context.backend.allocator(), (1 + 2 * batch) * size_of(DType::i32)) {
  for (Staged& staged : staged_)
    staged.memory = Buffer(context.backend.host_allocator(), batch_memory_.bytes());
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

DeviceDataset::~DeviceDataset() {
  for (const Staged& staged : staged_) {
    try {
      staged.copied.synchronize();
    } catch (const std::exception&) {  // the device's error: whoever waited for the batch was told
    }
  }
}

void DeviceDataset::select(Context& context, std::span<const std::int64_t> indices, std::int64_t epoch) {
  const auto n = static_cast<std::int64_t>(indices.size());
  const std::int64_t bytes = (1 + 2 * n) * size_of(DType::i32);
  LOCKSTEP_CHECK(bytes <= batch_memory_.bytes(), "a batch of {} samples", n);
  Staged& staged = staged_[next_];
  next_ = (next_ + 1) % staged_.size();
  staged.copied.synchronize();
  auto* host = static_cast<std::int32_t*>(staged.memory.data());
  *host++ = static_cast<std::int32_t>(epoch);
  for (const std::int64_t index : indices) *host++ = static_cast<std::int32_t>(index);
  for (const std::int64_t index : indices) *host++ = dataset_.labels[static_cast<std::size_t>(index)];
  auto* memory = static_cast<std::int32_t*>(batch_memory_.data());
  context.backend.copy_to_device(context.stream, memory, staged.memory.data(), bytes);
  staged.copied = context.stream.record();
  epoch_ = {memory, DType::i32, Layout::flat, Shape{1}};
  samples_ = {memory + 1, DType::i32, Layout::flat, Shape{n}};
  labels_ = {memory + 1 + n, DType::i32, Layout::flat, Shape{n}};
}

void DeviceDataset::augment(Context& context, bool train, std::uint64_t seed, const TensorView& input) const {
  AugmentOptions options;
  options.train = train;
  options.seed = seed;
  for (int channel = 0; channel < 3; ++channel) {
    options.mean[channel] = dataset_.mean[channel];
    options.inverse_deviation[channel] = 1.0f / dataset_.deviation[channel];
  }
  context.backend.augment_normalize(context.stream, options, images_, samples_, epoch_, input);
}

}  // namespace lockstep
