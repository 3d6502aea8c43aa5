#include "layers/parameter_store.h"

namespace lockstep {
namespace {

std::int64_t align_up(std::int64_t elements) {
  constexpr std::int64_t a = ParameterStore::kAlignment;
  return (elements + a - 1) / a * a;
}

TensorView view_at(const Buffer& buffer, DType dtype, Layout layout, const Shape& shape,
                   std::int64_t offset) {
  LOCKSTEP_CHECK(buffer.data() != nullptr, "the parameter store has no memory yet: call allocate()");
  return {static_cast<char*>(buffer.data()) + offset * size_of(dtype), dtype, layout, shape};
}

}  // namespace

int ParameterStore::add_parameter(const std::string& name, const Shape& shape, Layout layout, bool decay) {
  LOCKSTEP_CHECK(weights_.data() == nullptr, "parameter {} is declared after allocate()", name);
  LOCKSTEP_CHECK(find(name) < 0, "parameter {} is declared twice", name);
  parameters_.push_back({name, shape, layout, decay, flat_size_});
  flat_size_ += align_up(shape.numel());
  return count() - 1;
}

int ParameterStore::add_buffer(const std::string& name, const Shape& shape, float initial) {
  LOCKSTEP_CHECK(weights_.data() == nullptr, "buffer {} is declared after allocate()", name);
  for (const ModelBuffer& other : buffers_) {
    LOCKSTEP_CHECK(other.name != name, "buffer {} is declared twice", name);
  }
  buffers_.push_back({name, shape, buffer_size_, initial});
  buffer_size_ += align_up(shape.numel());
  return static_cast<int>(buffers_.size()) - 1;
}

void ParameterStore::allocate(Allocator& memory, Allocator& gradient_memory, DType compute) {
  compute_ = compute;
  const std::int64_t bytes = flat_size_ * size_of(DType::f32);
  weights_ = Buffer(memory, bytes);
  gradients_ = Buffer(gradient_memory, bytes);
  momenta_ = Buffer(memory, bytes);
  if (compute != DType::f32) workings_ = Buffer(memory, flat_size_ * size_of(compute));
  if (buffer_size_ > 0) statistics_ = Buffer(memory, buffer_size_ * size_of(DType::f32));
}

int ParameterStore::find(const std::string& name) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

TensorView ParameterStore::weight(int index) const {
  const Parameter& p = parameter(index);
  return view_at(weights_, DType::f32, p.layout, p.shape, p.offset);
}

TensorView ParameterStore::working(int index) const {
  if (compute_ == DType::f32) return weight(index);
  const Parameter& p = parameter(index);
  return view_at(workings_, compute_, p.layout, p.shape, p.offset);
}

TensorView ParameterStore::gradient(int index) const {
  const Parameter& p = parameter(index);
  return view_at(gradients_, DType::f32, p.layout, p.shape, p.offset);
}

TensorView ParameterStore::momentum(int index) const {
  const Parameter& p = parameter(index);
  return view_at(momenta_, DType::f32, p.layout, p.shape, p.offset);
}

TensorView ParameterStore::buffer(int index) const {
  const ModelBuffer& b = buffers_[static_cast<std::size_t>(index)];
  return view_at(statistics_, DType::f32, Layout::flat, b.shape, b.offset);
}

TensorView ParameterStore::slice(const Buffer& buffer, DType dtype, int first, int last) const {
  LOCKSTEP_CHECK(0 <= first && first <= last && last < count(), "slice {}..{} of {} parameters", first, last,
                 count());
  const std::int64_t begin = parameter(first).offset;
  const std::int64_t end = last + 1 < count() ? parameter(last + 1).offset : flat_size_;
  return view_at(buffer, dtype, Layout::flat, Shape{end - begin}, begin);
}

TensorView ParameterStore::weights(int first, int last) const {
  return slice(weights_, DType::f32, first, last);
}

TensorView ParameterStore::workings(int first, int last) const {
  if (compute_ == DType::f32) return {};
  return slice(workings_, compute_, first, last);
}

TensorView ParameterStore::gradients(int first, int last) const {
  return slice(gradients_, DType::f32, first, last);
}

TensorView ParameterStore::momenta(int first, int last) const {
  return slice(momenta_, DType::f32, first, last);
}

std::int64_t ParameterStore::parameter_elements() const {
  std::int64_t sum = 0;
  for (const Parameter& p : parameters_) sum += p.numel();
  return sum;
}

void ParameterStore::refresh_workings(Context& context) const {
  if (compute_ == DType::f32) return;
  context.backend.cast(context.stream, all_weights(), workings(0, count() - 1));
}

TensorView ParameterStore::all_weights() const {
  return weights(0, count() - 1);
}
TensorView ParameterStore::all_gradients() const {
  return gradients(0, count() - 1);
}
TensorView ParameterStore::all_momenta() const {
  return momenta(0, count() - 1);
}

TensorView ParameterStore::all_buffers() const {
  if (buffer_size_ == 0) return {};
  return view_at(statistics_, DType::f32, Layout::flat, Shape{buffer_size_}, 0);
}

std::vector<std::int64_t> ParameterStore::offsets() const {
  std::vector<std::int64_t> result;
  result.reserve(parameters_.size() + 1);
  for (const Parameter& p : parameters_) result.push_back(p.offset);
  result.push_back(flat_size_);
  return result;
}

}  // namespace lockstep
