// What tests of layers and networks share: a backend with its stream, tensors with memory, random values, and
// a checker of gradients by finite differences.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "core/rng.h"
#include "kernels/context.h"

namespace lockstep::test {

// A backend, its compute stream, and memory for tensors that lives as long as this object.
class Harness {
 public:
  explicit Harness(const Device& device = {DeviceKind::reference, 0, 1})
      : backend_(make_backend(device)),
        stream_(backend_->make_compute_stream()),
        context{*backend_, *stream_} {}

  TensorView tensor(Layout layout, const Shape& shape, DType dtype = DType::f32) {
    memory_.emplace_back(backend_->allocator(), shape.numel() * size_of(dtype));
    return {memory_.back().data(), dtype, layout, shape};
  }
  // Normal values, the same for the same `key`.
  TensorView random(Layout layout, const Shape& shape, std::uint64_t key) {
    const TensorView t = tensor(layout, shape);
    Philox(7, RandomStream::init)
        .fill_normal(key, 0.0f, 1.0f, {t.as<float>(), static_cast<std::size_t>(t.numel())});
    return t;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::deque<Buffer> memory_;

 public:
  Context context;
};

inline std::span<float> values(const TensorView& t) {
  return {t.as<float>(), static_cast<std::size_t>(t.numel())};
}

inline double dot(const TensorView& a, const TensorView& b) {
  double sum = 0;
  for (std::size_t i = 0; i < values(a).size(); ++i) sum += static_cast<double>(values(a)[i]) * values(b)[i];
  return sum;
}

}  // namespace lockstep::test
