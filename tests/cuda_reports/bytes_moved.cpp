// How many bytes the CUDA kernels move, beside the least that their op can do with. Prints the rows of a
// table (bytes_moved.py).
//
// The .cu files of this program are compiled with -fsanitize=thread, which calls a function before each
// access to memory that others could see. The functions are here, instead of the sanitizer's, and count what
// lies in memory of the simulated GPU.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "cudasim/cudasim.h"
#include "kernels/cuda/cuda_backend.h"

namespace {

// Of the kernels since start(). asked: bytes of all loads and stores; moved: a kernel's loads of a byte count
// once, and so do its stores, as if its cache kept all that it comes back to.
struct Traffic {
  std::int64_t asked = 0, moved = 0;
};

class Counter {
 public:
  void start() {
    pages_.clear();
    traffic_ = {};
    on_ = true;
  }
  Traffic stop() {
    on_ = false;
    return traffic_;
  }

  void access(const void* data, std::size_t bytes, std::uint8_t kind) {
    if (!on_ || !cudasim::is_device_memory(data, static_cast<std::int64_t>(bytes))) return;
    if (const std::int64_t kernel = cudasim::counts().launches; kernel != kernel_) {
      kernel_ = kernel;
      pages_.clear();
    }
    traffic_.asked += static_cast<std::int64_t>(bytes);
    const auto first = reinterpret_cast<std::uintptr_t>(data);
    for (std::uintptr_t at = first; at < first + bytes; ++at) {
      std::uint8_t& seen = pages_[at / kPage][at % kPage];
      if ((seen & kind) != 0) continue;
      seen = seen | kind;
      ++traffic_.moved;
    }
  }

 private:
  static constexpr std::size_t kPage = 4096;
  bool on_ = false;
  std::int64_t kernel_ = 0;
  Traffic traffic_;
  std::unordered_map<std::uintptr_t, std::array<std::uint8_t, kPage>> pages_;
};

Counter counter;
constexpr std::uint8_t kRead = 1, kWrite = 2;

}  // namespace

// What g++ calls. The names are its own.
// NOLINTBEGIN(bugprone-reserved-identifier)
#define COUNT(bytes)                               \
  void __tsan_read##bytes(void* data) {            \
    counter.access(data, bytes, kRead);            \
  }                                                \
  void __tsan_write##bytes(void* data) {           \
    counter.access(data, bytes, kWrite);           \
  }                                                \
  void __tsan_unaligned_read##bytes(void* data) {  \
    counter.access(data, bytes, kRead);            \
  }                                                \
  void __tsan_unaligned_write##bytes(void* data) { \
    counter.access(data, bytes, kWrite);           \
  }
extern "C" {
COUNT(1)
COUNT(2)
COUNT(4)
COUNT(8)
COUNT(16)
void __tsan_read_range(void* data, std::size_t bytes) {
  counter.access(data, bytes, kRead);
}
void __tsan_write_range(void* data, std::size_t bytes) {
  counter.access(data, bytes, kWrite);
}
int __tsan_atomic32_exchange(volatile void* data, int value, int /*order*/) {
  auto* at = const_cast<void*>(data);
  counter.access(at, sizeof value, kRead);
  counter.access(at, sizeof value, kWrite);
  return __atomic_exchange_n(static_cast<int*>(at), value, __ATOMIC_SEQ_CST);
}
void __tsan_init() {}
void __tsan_func_entry(void* /*caller*/) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** /*object*/, void* /*table*/) {}
}
// NOLINTEND(bugprone-reserved-identifier)

using namespace lockstep;

namespace {

// What an op reads and writes by its contract; library: bytes that cuBLAS and cuDNN move for it, who take
// their operands once.
struct Op {
  std::string name;
  std::vector<TensorView> reads, writes;
  std::function<void()> run;
  std::int64_t library = 0;
};

class Ops {
 public:
  explicit Ops(DType type)
      : type_(type),
        backend_({.kind = DeviceKind::cuda}),
        stream_(backend_.make_compute_stream()),
        b_(backend_),
        s_(*stream_) {}

  // x / y: bytes asked for and moved, over the least.
  std::vector<std::array<std::string, 3>> measure();

 private:
  static constexpr std::int64_t kN = 8, kSide = 28, kChannels = 128, kClasses = 1000;
  static constexpr std::int64_t kRows = kN * kSide * kSide;

  TensorView make(DType type, const Shape& shape) {
    buffers_.emplace_back(backend_.allocator(), shape.numel() * size_of(type));
    return {buffers_.back().data(), type, Layout::flat, shape};
  }
  TensorView activation() { return make(type_, {kN, kSide, kSide, kChannels}); }
  TensorView floats(std::int64_t count) { return make(DType::f32, {count}); }

  void batch_norm();
  void pooling();
  void classifier();
  void training();
  void others();

  DType type_;
  CudaBackend backend_;
  std::unique_ptr<Stream> stream_;
  Backend& b_;
  Stream& s_;
  std::vector<Buffer> buffers_;
  std::vector<Op> ops_;
};

void Ops::batch_norm() {
  const auto x = activation(), y = activation(), residual = activation(), dy = activation();
  const auto dx = activation(), dresidual = activation();
  const auto gamma = floats(kChannels), beta = floats(kChannels), mean = floats(kChannels);
  const auto spread = floats(kChannels), saved_mean = floats(kChannels), saved_spread = floats(kChannels);
  const auto dgamma = floats(kChannels), dbeta = floats(kChannels);
  const BatchNormOptions options{.relu = true};
  ops_.push_back({"batch_norm_forward_training",
                  {x, residual, gamma, beta, mean, spread},
                  {y, mean, spread, saved_mean, saved_spread},
                  [=, this] {
                    b_.batch_norm_forward_training(s_, options, x, gamma, beta, residual, mean, spread,
                                                   saved_mean, saved_spread, y);
                  }});
  ops_.push_back({"batch_norm_forward_evaluation", {x, residual, gamma, beta, mean, spread}, {y}, [=, this] {
                    b_.batch_norm_forward_evaluation(s_, options, x, gamma, beta, residual, mean, spread, y);
                  }});
  ops_.push_back({"batch_norm_backward",
                  {x, y, dy, gamma, saved_mean, saved_spread},
                  {dx, dresidual, dgamma, dbeta},
                  [=, this] {
                    b_.batch_norm_backward(s_, options, x, y, dy, gamma, saved_mean, saved_spread, dx,
                                           dresidual, dgamma, dbeta, GradMode::overwrite);
                  }});
  ops_.push_back({"batch_norm_backward_evaluation",
                  {x, y, dy, gamma, mean, spread},
                  {dx, dresidual, dgamma, dbeta},
                  [=, this] {
                    b_.batch_norm_backward_evaluation(s_, options, x, y, dy, gamma, mean, spread, dx,
                                                      dresidual, dgamma, dbeta, GradMode::overwrite);
                  }});
}

void Ops::pooling() {
  const PoolShape shape{kN, kSide, kSide, kChannels};
  const Shape small{kN, shape.out_h(), shape.out_w(), kChannels};
  const auto x = activation(), dx = activation();
  const auto y = make(type_, small), dy = make(type_, small), index = make(DType::u8, small);
  const auto mean = make(type_, {kN, kChannels}), dmean = make(type_, {kN, kChannels});
  ops_.push_back(
      {"max_pool_forward", {x}, {y, index}, [=, this] { b_.max_pool_forward(s_, shape, x, y, index); }});
  ops_.push_back({"max_pool_backward", {dy, index}, {dx}, [=, this] {
                    b_.max_pool_backward(s_, shape, dy, index, dx);
                  }});
  ops_.push_back({"global_average_pool_forward", {x}, {mean}, [=, this] {
                    b_.global_average_pool_forward(s_, x, mean);
                  }});
  ops_.push_back({"global_average_pool_backward", {dmean}, {dx}, [=, this] {
                    b_.global_average_pool_backward(s_, dmean, dx);
                  }});
}

void Ops::classifier() {
  constexpr std::int64_t kBatch = 64, kFeatures = 512;
  const auto x = make(type_, {kBatch, kFeatures}), w = make(type_, {kClasses, kFeatures});
  const auto y = make(type_, {kBatch, kClasses}), dy = make(type_, {kBatch, kClasses});
  const auto bias = floats(kClasses), dw = make(DType::f32, {kClasses, kFeatures}), dbias = floats(kClasses);
  const auto labels = make(DType::i32, {kBatch}), correct = make(DType::i32, {1}), loss = floats(1);
  ops_.push_back({"linear_forward",
                  {x, w, bias},
                  {y},
                  [=, this] { b_.linear_forward(s_, x, w, bias, y); },
                  x.bytes() + w.bytes() + y.numel() * 4});
  ops_.push_back({"linear_backward_weight",
                  {x, dy},
                  {dw, dbias},
                  [=, this] { b_.linear_backward_weight(s_, x, dy, dw, dbias, GradMode::overwrite); },
                  x.bytes() + dy.bytes() + dw.bytes()});
  ops_.push_back({"softmax_cross_entropy", {y, labels}, {loss, correct, dy}, [=, this] {
                    b_.softmax_cross_entropy(s_, y, labels, 0.1f, {}, loss, correct, dy);
                  }});
}

void Ops::training() {
  constexpr std::int64_t kCount = 1'000'003;
  const auto w = floats(kCount), dw = floats(kCount), v = floats(kCount), working = make(type_, {kCount});
  const auto rate = floats(1), flag = floats(1);
  const bool narrow = type_ != DType::f32;  // f32 weights are their own working copy
  ops_.push_back(
      {"sgd_step", {w, dw, v, rate}, narrow ? std::vector{w, v, working} : std::vector{w, v}, [=, this] {
         b_.sgd_step(s_, {}, {rate, {}, {}}, w, dw, v, narrow ? working : TensorView{});
       }});
  ops_.push_back({"non_finite_check", {working}, {}, [=, this] { b_.non_finite_check(s_, working, flag); }});
  const float one = 1;
  b_.copy_to_device(s_, flag.data, &one, flag.bytes());
  s_.synchronize();
  ops_.push_back({"copy_if", {w}, {v}, [=, this] { b_.copy_if(s_, flag, w, v); }});
  if (narrow) {
    ops_.push_back({"cast", {w}, {working}, [=, this] { b_.cast(s_, w, working); }});
    const ConvShape shape{kN, kSide, kSide, kChannels, kChannels, 3, 1, 1};
    const auto x = activation(), dy = activation();
    const auto dk = make(DType::f32, {kChannels, 3, 3, kChannels});
    ops_.push_back({"conv2d_backward_weight",
                    {x, dy},
                    {dk},
                    [=, this] { b_.conv2d_backward_weight(s_, shape, x, dy, dk, GradMode::overwrite); },
                    x.bytes() + dy.bytes() + dk.numel() * size_of(type_)});
  }
}

void Ops::others() {
  const auto x = activation(), y = activation(), dx = activation();
  ops_.push_back({"relu_forward", {x}, {y}, [=, this] { b_.relu_forward(s_, x, y); }});
  ops_.push_back({"relu_backward", {y, x}, {dx}, [=, this] { b_.relu_backward(s_, y, x, dx); }});
  constexpr std::int64_t kPictures = 64, kWidth = 32;
  const auto images = make(DType::u8, {kPictures, 3, kWidth, kWidth}),
             samples = make(DType::i32, {kPictures});
  const auto epoch = make(DType::i32, {1}), batch = make(type_, {kPictures, kWidth, kWidth, 3});
  std::vector<std::int32_t> numbers(kPictures);
  std::iota(numbers.begin(), numbers.end(), 0);
  b_.copy_to_device(s_, samples.data, numbers.data(), samples.bytes());
  s_.synchronize();
  ops_.push_back({"augment_normalize", {images, samples, epoch}, {batch}, [=, this] {
                    b_.augment_normalize(s_, {}, images, samples, epoch, batch);
                  }});
}

std::vector<std::array<std::string, 3>> Ops::measure() {
  batch_norm();
  pooling();
  classifier();
  training();
  others();
  std::vector<std::array<std::string, 3>> rows;
  for (const Op& op : ops_) {
    std::int64_t least = 0;
    for (const auto* views : {&op.reads, &op.writes}) {
      for (const TensorView& view : *views) least += view.bytes();
    }
    op.run();  // makes what is made once: scratch memory, plans
    counter.start();
    op.run();
    s_.synchronize();
    const Traffic traffic = counter.stop();
    const auto over_least = [&](std::int64_t bytes) {
      return fmt::format("{:.2f}", static_cast<double>(bytes + op.library) / static_cast<double>(least));
    };
    rows.push_back({op.name, over_least(traffic.moved), over_least(traffic.asked)});
  }
  return rows;
}

}  // namespace

int main() {
  cudasim::Config config = cudasim::config();
  config.eager = true;
  cudasim::configure(config);
  const auto narrow = Ops(DType::bf16).measure(), wide = Ops(DType::f32).measure();
  for (const auto& [name, moved, asked] : narrow) {
    const auto same = std::find_if(wide.begin(), wide.end(), [&](const auto& row) { return row[0] == name; });
    const bool both = same != wide.end();
    fmt::print("| `{}` | {} | {} | {} | {} |\n", name, moved, asked, both ? (*same)[1] : "",
               both ? (*same)[2] : "");
  }
}
