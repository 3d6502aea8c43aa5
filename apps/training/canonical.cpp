#include "apps/training/canonical.h"

#include "core/hash.h"

namespace lockstep {
namespace {

// A [Cout][area][Cin] and a [Cout][Cin][area] array are each other's transpose in the last two dimensions.
void transpose_each(const float* from, float* to, std::int64_t count, std::int64_t rows,
                    std::int64_t columns) {
  for (std::int64_t o = 0; o < count; ++o, from += rows * columns, to += rows * columns) {
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = 0; r < rows; ++r) to[c * rows + r] = from[r * columns + c];
    }
  }
}

bool is_permuted(const TensorView& view) {
  return view.layout == Layout::ohwi && view.shape[1] * view.shape[2] > 1;
}

}  // namespace

CanonicalModel::CanonicalModel(const ResNet& model, const ParameterStore& store) {
  for (const std::string& name : model.registration_order()) {
    const int index = store.find(name);
    LOCKSTEP_CHECK(index >= 0, "{} is in the registration order but not in the store", name);
    weights.push_back({name, store.weight(index)});
    momenta.push_back({name, store.momentum(index)});
  }
  for (std::size_t b = 0; b < store.buffers().size(); ++b) {
    buffers.push_back({store.buffers()[b].name, store.buffer(static_cast<int>(b))});
  }
}

std::vector<std::int64_t> canonical_shape(const TensorView& view) {
  const Shape& s = view.shape;
  if (view.layout == Layout::ohwi) return {s[0], s[3], s[1], s[2]};
  std::vector<std::int64_t> dims;
  for (int axis = 0; axis < s.rank(); ++axis) dims.push_back(s[axis]);
  return dims;
}

void to_canonical(Context& context, const TensorView& view, std::vector<float>& out) {
  out.resize(static_cast<std::size_t>(view.numel()));
  context.backend.copy_to_host(context.stream, out.data(), view.data, view.bytes());
  context.stream.synchronize();
  if (!is_permuted(view)) return;
  const Shape& s = view.shape;
  std::vector<float> permuted(out.size());
  transpose_each(out.data(), permuted.data(), s[0], s[1] * s[2], s[3]);
  out.swap(permuted);
}

void from_canonical(Context& context, const float* in, const TensorView& view) {
  std::vector<float> permuted;
  if (is_permuted(view)) {
    const Shape& s = view.shape;
    permuted.resize(static_cast<std::size_t>(view.numel()));
    transpose_each(in, permuted.data(), s[0], s[3], s[1] * s[2]);
    in = permuted.data();
  }
  context.backend.copy_to_device(context.stream, view.data, in, view.bytes());
  context.stream.synchronize();
}

std::string checksum(Context& context, const std::vector<CanonicalTensor>& tensors) {
  Hash hash;
  std::vector<float> values;
  for (const CanonicalTensor& tensor : tensors) {
    to_canonical(context, tensor.view, values);
    hash.add_bytes(values.data(), values.size() * sizeof(float));
  }
  return hash.hex();
}

}  // namespace lockstep
