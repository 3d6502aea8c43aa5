#include "apps/training/non_finite.h"

#include <map>

namespace lockstep {
namespace {

class Checker {
 public:
  explicit Checker(Context& context)
      : context_(context), flag_(context.backend.allocator(), size_of(DType::f32)) {}

  bool finite(const TensorView& tensor) {
    const TensorView flag{flag_.data(), DType::f32, Layout::flat, Shape{1}};
    context_.backend.fill_zero(context_.stream, flag.data, flag.bytes());
    context_.backend.non_finite_check(context_.stream, tensor, flag);
    float found = 0;
    context_.backend.copy_to_host(context_.stream, &found, flag.data, sizeof found);
    context_.stream.synchronize();
    return found == 0;
  }

 private:
  Context& context_;
  Buffer flag_;
};

}  // namespace

std::string first_non_finite(Context& context, const ResNet& model, const ParameterStore& store,
                             const Buffer& moved) {
  Checker check(context);
  std::map<std::string, TensorView> statistics;
  for (std::size_t b = 0; b < store.buffers().size(); ++b) {
    TensorView view = store.buffer(static_cast<int>(b));
    const auto offset =
        static_cast<const char*>(view.data) - static_cast<const char*>(store.all_buffers().data);
    view.data = static_cast<char*>(moved.data()) + offset;
    statistics[store.buffers()[b].name] = view;
  }
  for (const std::string& name : model.registration_order()) {
    if (!check.finite(store.weight(store.find(name)))) return name;
    // The last parameter of a batch norm is its bias.
    const auto dot = name.rfind('.');
    const std::string layer = name.substr(0, dot);
    const auto mean = statistics.find(layer + ".running_mean");
    if (name.substr(dot) != ".bias" || mean == statistics.end()) continue;
    if (!check.finite(mean->second) || !check.finite(statistics[layer + ".running_var"])) {
      return "the activations that go into " + layer;
    }
  }
  return "the logits";
}

std::string first_non_finite_gradient(Context& context, const ResNet& model, const ParameterStore& store) {
  Checker check(context);
  for (const std::string& name : model.registration_order()) {
    if (!check.finite(store.gradient(store.find(name)))) return name;
  }
  return "";
}

}  // namespace lockstep
