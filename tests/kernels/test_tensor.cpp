#include "kernels/test_tensor.h"

#include <cstring>
#include <limits>

#include "catch.h"
#include "core/rng.h"
#include "kernels/reference/numeric.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t kFence = 256;
constexpr unsigned char kFenceByte = 0xA5;

template <class T>
void put(unsigned char* to, std::size_t i, T value) {
  std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

template <class T>
T get(const unsigned char* from, std::size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

void encode(DType type, const Values& values, unsigned char* to) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == DType::f32) {
      put(to, i, static_cast<float>(values[i]));
    } else if (type == DType::bf16) {
      bfloat16 value;
      reference::store(value, values[i]);
      put(to, i, value);
    } else if (type == DType::f16) {
      float16 value;
      reference::store(value, values[i]);
      put(to, i, value);
    } else if (type == DType::u8) {
      put(to, i, static_cast<std::uint8_t>(values[i]));
    } else {
      put(to, i, static_cast<std::int32_t>(values[i]));
    }
  }
}

double decode(DType type, const unsigned char* from, std::size_t i) {
  if (type == DType::f32) return reference::load(get<float>(from, i));
  if (type == DType::bf16) return reference::load(get<bfloat16>(from, i));
  if (type == DType::f16) return reference::load(get<float16>(from, i));
  if (type == DType::u8) return get<std::uint8_t>(from, i);
  return get<std::int32_t>(from, i);
}

}  // namespace

Values uniform(std::int64_t count, double low, double high, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  Philox(seed, RandomStream::synthetic)
      .fill_uniform(0, static_cast<float>(low), static_cast<float>(high), values);
  return Values(values.begin(), values.end());
}

TestTensor::TestTensor(Backend& backend, Stream& stream, DType type, Layout layout, const Shape& shape,
                       const Values& values)
    : backend_(&backend), stream_(&stream) {
  view_ = {nullptr, type, layout, shape};
  const std::int64_t bytes = view_.bytes();
  buffer_ = Buffer(backend.allocator(), bytes + 2 * kFence);
  view_.data = static_cast<unsigned char*>(buffer_.data()) + kFence;
  std::vector<unsigned char> host(static_cast<std::size_t>(bytes + 2 * kFence), kFenceByte);
  if (values.empty()) {
    const bool floating = type == DType::f32 || type == DType::bf16 || type == DType::f16;
    const Values nan(static_cast<std::size_t>(view_.numel()), std::numeric_limits<double>::quiet_NaN());
    if (floating) encode(type, nan, host.data() + kFence);
    if (!floating) std::memset(host.data() + kFence, 0xEE, static_cast<std::size_t>(bytes));
  } else {
    REQUIRE(values.size() == static_cast<std::size_t>(view_.numel()));
    encode(type, values, host.data() + kFence);
  }
  backend.copy_to_device(stream, buffer_.data(), host.data(), buffer_.bytes());
  stream.synchronize();
}

Values TestTensor::read() const {
  std::vector<unsigned char> host(static_cast<std::size_t>(buffer_.bytes()));
  backend_->copy_to_host(*stream_, host.data(), buffer_.data(), buffer_.bytes());
  stream_->synchronize();
  std::size_t touched = 0;
  for (std::int64_t i = 0; i < kFence; ++i) {
    if (host[static_cast<std::size_t>(i)] != kFenceByte) ++touched;
    if (host[host.size() - 1 - static_cast<std::size_t>(i)] != kFenceByte) ++touched;
  }
  INFO("bytes written out of bounds around a tensor of " << view_.shape.to_string());
  CHECK(touched == 0);
  Values values(static_cast<std::size_t>(view_.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = decode(view_.dtype, host.data() + kFence, i);
  return values;
}

}  // namespace lockstep::test
