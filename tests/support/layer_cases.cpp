#include "support/layer_cases.h"

#include <algorithm>

#include "layers/batch_norm.h"
#include "layers/conv2d.h"
#include "layers/global_average_pool.h"
#include "layers/linear.h"
#include "layers/max_pool.h"
#include "layers/softmax_cross_entropy.h"

namespace lockstep::test {
namespace {

const GradientsReady kIgnore = [](int, int) {};

// One case: its tensors on the device, a store, an arena, and the comparisons made so far.
class Case : public Harness {
 public:
  Case(const Device& device, const TensorFile& file, std::string name, std::vector<LayerError>& errors)
      : Harness(device), name_(std::move(name)), file_(file), errors_(errors) {}

  const FileTensor& at(const std::string& tensor) const {
    const auto found = file_.find(name_ + "/" + tensor);
    if (found == file_.end()) fail(ExitCode::data, "{} has no tensor {}", name_, tensor);
    return found->second;
  }
  bool has(const std::string& tensor) const { return file_.contains(name_ + "/" + tensor); }
  std::int64_t option(std::size_t i) const { return at("options").integers.at(i); }

  TensorView load(const std::string& tensor_name) {
    const FileTensor& source = at(tensor_name);
    const auto& d = source.dims;
    const Shape shape = d.size() == 4   ? Shape{d[0], d[1], d[2], d[3]}
                        : d.size() == 2 ? Shape{d[0], d[1]}
                                        : Shape{d[0]};
    const bool real = source.integers.empty();
    const TensorView t =
        tensor(d.size() == 4 ? Layout::nhwc : Layout::flat, shape, real ? DType::f32 : DType::i32);
    const void* from = real ? static_cast<const void*>(source.values.data()) : source.integers.data();
    context.backend.copy_to_device(context.stream, t.data, from, t.bytes());
    return t;
  }
  TensorView like(const TensorView& t) { return tensor(t.layout, t.shape, t.dtype); }

  void set(const TensorView& to, const std::string& tensor_name) {
    const FileTensor& source = at(tensor_name);
    context.backend.copy_to_device(context.stream, to.data, source.values.data(), to.bytes());
  }
  void compare(const std::string& tensor_name, const TensorView& actual) {
    std::vector<float> host(static_cast<std::size_t>(actual.numel()));
    context.backend.copy_to_host(context.stream, host.data(), actual.data, actual.bytes());
    context.stream.synchronize();
    errors_.push_back({name_, tensor_name, relative_error(host, at(tensor_name).values)});
  }

  // Parameters that the layer declared, filled from the file.
  void fill_parameters(const std::vector<std::string>& names) {
    store.allocate(context.backend.allocator(), context.backend.allocator(), DType::f32);
    for (std::size_t i = 0; i < names.size(); ++i) set(store.weight(static_cast<int>(i)), names[i]);
  }
  Arena& arena_for(std::int64_t bytes) { return arena_ = Arena(context.backend.allocator(), bytes); }

  ParameterStore store;

 private:
  std::string name_;
  const TensorFile& file_;
  std::vector<LayerError>& errors_;
  Arena arena_;
};

constexpr std::int64_t kSlack = 1 << 16;  // alignment, and small tensors beside the output

void run_conv2d(Case& c) {
  const TensorView x = c.load("x"), dy = c.load("dy"), dx = c.like(x);
  Conv2d conv("conv", {x.shape[3], dy.shape[3], c.option(0), c.option(1), c.option(2)});
  conv.declare_parameters(c.store);
  c.fill_parameters({"w"});
  conv.layout(c.arena_for(dy.bytes() + kSlack), x);
  c.compare("y", conv.forward({c.context, Mode::training}, x));
  conv.backward({c.context, Mode::training, GradMode::overwrite, kIgnore}, dy, dx, GradMode::overwrite);
  c.compare("dx", dx);
  c.compare("dw", c.store.gradient(0));
}

void run_batch_norm(Case& c) {
  const TensorView x = c.load("x"), dy = c.load("dy"), dx = c.like(x);
  const bool with_residual = c.has("residual");
  const TensorView residual = with_residual ? c.load("residual") : TensorView{};
  const TensorView dresidual = with_residual ? c.like(x) : TensorView{};
  const Mode mode = c.option(1) != 0 ? Mode::frozen : Mode::training;
  BatchNorm norm("bn", x.shape[3], c.option(0) != 0);
  norm.declare_parameters(c.store);
  norm.declare_buffers(c.store);
  c.fill_parameters({"gamma", "beta"});
  c.set(c.store.buffer(0), "running_mean");
  c.set(c.store.buffer(1), "running_var");
  norm.layout(c.arena_for(x.bytes() + kSlack), x);
  c.compare("y", norm.forward({c.context, mode}, x, residual));
  norm.backward({c.context, mode, GradMode::overwrite, kIgnore}, dy, dx, dresidual);
  c.compare("dx", dx);
  if (with_residual) c.compare("dresidual", dresidual);
  c.compare("dgamma", c.store.gradient(0));
  c.compare("dbeta", c.store.gradient(1));
  c.compare("new_running_mean", c.store.buffer(0));
  c.compare("new_running_var", c.store.buffer(1));
}

void run_max_pool(Case& c) {
  const TensorView x = c.load("x"), dy = c.load("dy"), dx = c.like(x);
  MaxPool pool("pool", c.option(0), c.option(1), c.option(2));
  pool.layout(c.arena_for(2 * dy.bytes() + kSlack), x);
  c.compare("y", pool.forward({c.context, Mode::training}, x));
  pool.backward({c.context, Mode::training, GradMode::overwrite, kIgnore}, dy, dx);
  c.compare("dx", dx);
}

void run_average_pool(Case& c) {
  const TensorView x = c.load("x"), dy = c.load("dy"), dx = c.like(x);
  GlobalAveragePool pool("pool");
  pool.layout(c.arena_for(dy.bytes() + kSlack), x);
  c.compare("y", pool.forward({c.context, Mode::training}, x));
  pool.backward({c.context, Mode::training, GradMode::overwrite, kIgnore}, dy, dx);
  c.compare("dx", dx);
}

void run_linear(Case& c) {
  const TensorView x = c.load("x"), dy = c.load("dy"), dx = c.like(x);
  Linear linear("fc", x.shape[1], dy.shape[1]);
  linear.declare_parameters(c.store);
  c.fill_parameters({"bias", "w"});
  linear.layout(c.arena_for(dy.bytes() + kSlack), x);
  c.compare("y", linear.forward({c.context, Mode::training}, x));
  linear.backward({c.context, Mode::training, GradMode::overwrite, kIgnore}, dy, dx);
  c.compare("dx", dx);
  c.compare("dbias", c.store.gradient(0));
  c.compare("dw", c.store.gradient(1));
}

void run_loss(Case& c) {
  const TensorView logits = c.load("logits"), labels = c.load("labels"), dlogits = c.like(logits);
  SoftmaxCrossEntropy loss("loss", static_cast<float>(c.option(0)) / 100.0f);
  loss.layout(c.arena_for(kSlack));
  loss.forward({c.context, Mode::training}, logits, labels, {}, dlogits);
  c.compare("loss", loss.loss());
  c.compare("dlogits", dlogits);
}

}  // namespace

double relative_error(std::span<const float> actual, std::span<const float> expected) {
  if (actual.size() != expected.size()) return HUGE_VAL;
  double difference = 0, norm = 0, largest_difference = 0, largest = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double d = static_cast<double>(actual[i]) - expected[i];
    if (std::isnan(d)) return HUGE_VAL;
    difference += d * d;
    norm += static_cast<double>(expected[i]) * expected[i];
    largest_difference = std::max(largest_difference, std::abs(d));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  if (largest == 0) return largest_difference == 0 ? 0.0 : HUGE_VAL;
  return std::max(std::sqrt(difference / norm), largest_difference / largest);
}

std::vector<LayerError> run_layer_cases(const Device& device, const TensorFile& file) {
  std::vector<LayerError> errors;
  for (const auto& [name, tensor] : file) {
    const auto slash = name.find("/options");
    if (slash == std::string::npos) continue;
    Case c(device, file, name.substr(0, slash), errors);
    const std::string kind = name.substr(0, name.find('.'));
    if (kind == "conv2d")
      run_conv2d(c);
    else if (kind == "batch_norm")
      run_batch_norm(c);
    else if (kind == "max_pool")
      run_max_pool(c);
    else if (kind == "average_pool")
      run_average_pool(c);
    else if (kind == "linear")
      run_linear(c);
    else if (kind == "loss")
      run_loss(c);
    else
      fail(ExitCode::data, "unknown layer {}", name);
  }
  return errors;
}

}  // namespace lockstep::test
