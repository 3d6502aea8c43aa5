#include "bench/kernels/instance.h"

#include <cmath>
#include <cstring>

#include "core/rng.h"

namespace lockstep::bench {
namespace {

// Calls function(T{}) with the C++ type of an element type.
template <class Function>
void with_element_type(DType type, const Function& function) {
  switch (type) {
    case DType::f32:
      return function(float{});
    case DType::bf16:
      return function(bfloat16{});
    case DType::u8:
      return function(std::uint8_t{});
    case DType::i32:
      return function(std::int32_t{});
    case DType::f16:
      return function(float16{});
  }
  fail(ExitCode::internal, "kernel_bench has no data of type {}", name_of(type));
}

// static_cast<float> rounds integers down, since no range with integers in it is below zero.
std::vector<char> random_bytes(const Operand& operand, std::int64_t count, std::uint64_t substream) {
  std::vector<float> values(static_cast<std::size_t>(count), static_cast<float>(operand.low));
  if (operand.low < operand.high) {
    Philox(0, RandomStream::synthetic)
        .fill_uniform(substream, static_cast<float>(operand.low), static_cast<float>(operand.high), values);
  }
  std::vector<char> bytes;
  with_element_type(operand.view.dtype, [&](auto type) {
    using T = decltype(type);
    bytes.resize(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T element = static_cast<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return bytes;
}

Values decode(DType dtype, const std::vector<char>& bytes) {
  Values values(bytes.size() / static_cast<std::size_t>(size_of(dtype)));
  with_element_type(dtype, [&](auto type) {
    using T = decltype(type);
    for (std::size_t i = 0; i < values.size(); ++i) {
      T element;
      std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
      if constexpr (sizeof(T) == sizeof(bfloat16)) {
        values[i] = static_cast<double>(static_cast<float>(element));
      } else {
        values[i] = static_cast<double>(element);
      }
    }
  });
  return values;
}

}  // namespace

Instance::Instance(Backend& backend, Stream& stream, const Call& call, std::int64_t samples,
                   std::int64_t period)
    : backend_(backend), stream_(stream), call_(call), samples_(samples), period_(period) {
  for (std::size_t i = 0; i < call_.operands.size(); ++i) {
    const Operand& operand = call_.operands[i];
    TensorView view = operand.view;
    Buffer buffer;
    if (view) {
      if (operand.per_sample) view.shape = view.shape.with_first(samples);
      buffer = Buffer(operand.on_host ? backend.host_allocator() : backend.allocator(), view.bytes());
      view.data = buffer.data();
    }
    buffers_.push_back(std::move(buffer));
    tensors_.push_back(view);
    if (view) fill(i);
  }
}

std::int64_t Instance::period_bytes(std::size_t operand) const {
  const std::int64_t bytes = tensors_[operand].bytes();
  return call_.operands[operand].per_sample ? bytes / periods() : bytes;
}

void Instance::put(std::size_t operand, std::int64_t offset, const std::vector<char>& bytes) const {
  char* to = static_cast<char*>(tensors_[operand].data) + offset;
  if (call_.operands[operand].on_host) {
    std::memcpy(to, bytes.data(), bytes.size());
  } else {
    backend_.copy_to_device(stream_, to, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  }
}

void Instance::fill(std::size_t operand) {
  const std::int64_t bytes = period_bytes(operand);
  const std::vector<char> period =
      call_.operands[operand].role == Role::output
          ? std::vector<char>(static_cast<std::size_t>(bytes), static_cast<char>(0xFF))
          : random_bytes(call_.operands[operand], bytes / size_of(tensors_[operand].dtype), operand);
  for (std::int64_t at = 0; at < tensors_[operand].bytes(); at += bytes) put(operand, at, period);
  stream_.synchronize();
}

void Instance::prepare() const {
  if (call_.prepare) call_.prepare(backend_, stream_, tensors_);
  stream_.synchronize();
}

Values Instance::read(std::size_t operand, std::int64_t at_period) const {
  std::vector<char> bytes(static_cast<std::size_t>(period_bytes(operand)));
  const char* from =
      static_cast<const char*>(tensors_[operand].data) + at_period * static_cast<std::int64_t>(bytes.size());
  stream_.synchronize();
  if (call_.operands[operand].on_host) {
    std::memcpy(bytes.data(), from, bytes.size());
  } else {
    backend_.copy_to_host(stream_, bytes.data(), from, static_cast<std::int64_t>(bytes.size()));
    stream_.synchronize();
  }
  return decode(tensors_[operand].dtype, bytes);
}

}  // namespace lockstep::bench
