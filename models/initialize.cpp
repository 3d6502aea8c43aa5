#include "models/initialize.h"

#include <algorithm>
#include <span>

#include "core/rng.h"

namespace lockstep {
namespace {

void fill(const Philox& random, const InitialValue& value, std::uint64_t substream, std::span<float> out) {
  switch (value.kind) {
    case InitialValue::Kind::constant:
      std::fill(out.begin(), out.end(), value.scale);
      break;
    case InitialValue::Kind::normal:
      random.fill_normal(substream, 0.0f, value.scale, out);
      break;
    case InitialValue::Kind::uniform:
      random.fill_uniform(substream, -value.scale, value.scale, out);
      break;
  }
}

}  // namespace

void initialize_parameters(Context& context, const ParameterStore& store,
                           const std::vector<InitialValue>& values, std::uint64_t seed) {
  LOCKSTEP_CHECK(static_cast<int>(values.size()) == store.count(), "{} initial values for {} parameters",
                 values.size(), store.count());
  const Span span(context.tracer, "initialize", "start");
  const Philox random(seed, RandomStream::init);
  std::vector<float> host(kInitialChunk);
  // A copy may still read `host` when copy_to_device returns (a device's stream), so the stream is drained
  // first.
  const auto upload = [&](void* to, std::int64_t count) {
    context.backend.copy_to_device(context.stream, to, host.data(), count * size_of(DType::f32));
    context.stream.synchronize();
  };
  for (std::size_t p = 0; p < values.size(); ++p) {
    const TensorView weight = store.weight(values[p].parameter);
    std::uint64_t substream = p * kSubstreamsAParameter;
    for (std::int64_t begin = 0; begin < weight.numel(); begin += kInitialChunk) {
      const std::int64_t count = std::min(kInitialChunk, weight.numel() - begin);
      fill(random, values[p], substream++, std::span(host).first(static_cast<std::size_t>(count)));
      upload(weight.as<float>() + begin, count);
    }
  }
  for (std::size_t b = 0; b < store.buffers().size(); ++b) {
    const TensorView buffer = store.buffer(static_cast<int>(b));
    std::fill_n(host.begin(), buffer.numel(), store.buffers()[b].initial);
    upload(buffer.data, buffer.numel());
  }
  store.refresh_workings(context);
}

}  // namespace lockstep
