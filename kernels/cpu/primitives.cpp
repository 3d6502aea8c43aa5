#include "kernels/cpu/primitives.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/error.h"

namespace lockstep::cpu {
namespace {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

dnnl::memory::data_type type_of(DType type) {
  return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// The scratchpad is the caller's memory: a library that allocates inside a step pays for page faults each
// time.
dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void check(dnnl_status_t status) {
  LOCKSTEP_CHECK(status == dnnl_success, "oneDNN returned status {}", static_cast<int>(status));
}

// How a product is cut: measured inside ResNet-50's step, batch 32, two threads (AVX-512, oneDNN 2.6). Parts
// that are too small for that are left to oneDNN.
enum class Cut { none, rows, columns };

Cut cut_of(const MatmulShape& s, int threads) {
  constexpr std::int64_t kManyRows = 256, kFewRows = 64, kPartOfMany = 32;
  const std::int64_t rows = s.m / threads, columns = s.n / threads;
  if (threads == 1) return Cut::none;
  if (s.transpose_a) return rows >= kPartOfMany ? Cut::rows : Cut::none;  // a weight gradient
  if (rows >= kManyRows) return Cut::rows;
  if (!s.transpose_b && rows <= kFewRows && columns >= kPartOfMany) return Cut::columns;
  return Cut::none;
}

}  // namespace

bool has_fast_bf16() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & wanted) == wanted;
}

Primitives::Primitives(Workspace& workspace, const Threads& threads)
    : workspace_(workspace), threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

template <class PrimitiveDesc>
Primitives::Prepared Primitives::prepare(dnnl::primitive primitive, const PrimitiveDesc& desc,
                                         const std::vector<std::pair<int, MemoryDesc>>& arguments) {
  Prepared prepared;
  prepared.primitive = std::move(primitive);
  prepared.scratchpad_bytes = static_cast<std::int64_t>(desc.scratchpad_desc().get_size());
  auto with_scratchpad = arguments;
  with_scratchpad.emplace_back(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
  for (const auto& [id, memory_desc] : with_scratchpad) {
    prepared.memories.emplace_back(memory_desc, engine_, nullptr);
    prepared.arguments.push_back({id, prepared.memories.back().get()});
  }
  return prepared;
}

void Primitives::run(Prepared& prepared, const std::vector<void*>& pointers) {
  for (std::size_t i = 0; i < pointers.size(); ++i) prepared.memories[i].set_data_handle(pointers[i]);
  prepared.memories.back().set_data_handle(workspace_.get(Area::onednn, prepared.scratchpad_bytes));
  check(execute(prepared));
}

dnnl_status_t Primitives::execute(Prepared& prepared) {
  return dnnl_primitive_execute(prepared.primitive.get(), stream_.get(),
                                static_cast<int>(prepared.arguments.size()), prepared.arguments.data());
}

Primitives::Prepared Primitives::make_matmul(const MatmulShape& s) {
  const auto desc = [](std::int64_t rows, std::int64_t columns, std::int64_t leading, bool transposed,
                       DType type) {
    return MemoryDesc({rows, columns}, type_of(type), transposed ? Dims{1, leading} : Dims{leading, 1});
  };
  const MemoryDesc a = desc(s.m, s.k, s.lda, s.transpose_a, s.input);
  const MemoryDesc b = desc(s.k, s.n, s.ldb, s.transpose_b, s.input);
  const MemoryDesc c = desc(s.m, s.n, s.ldc, false, s.output);
  dnnl::primitive_attr attr = attributes();
  if (s.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
  }
  const auto description = describe_matmul(engine_, a, b, c, attr);
  return prepare(dnnl::matmul(description), description,
                 {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

Primitives::Product Primitives::make_product(const MatmulShape& shape) {
  Product product;
  const Cut cut = cut_of(shape, threads_.count());
  product.by_rows = cut == Cut::rows;
  product.shapes.assign(cut == Cut::none ? 1 : static_cast<std::size_t>(threads_.count()), shape);
  const auto parts = static_cast<std::int64_t>(product.shapes.size());
  for (std::int64_t i = 0; i < parts; ++i) {
    constexpr std::int64_t kUnit = 16;
    MatmulShape& part = product.shapes[static_cast<std::size_t>(i)];
    std::int64_t& size = product.by_rows ? part.m : part.n;
    const std::int64_t units = (size + kUnit - 1) / kUnit, whole = size;
    const auto begin = [&](std::int64_t p) { return std::min(whole, units * p / parts * kUnit); };
    size = begin(i + 1) - begin(i);
  }
  // A primitive takes as many threads as OpenMP offers where it is made.
  if (cut != Cut::none) omp_set_num_threads(1);
  for (const MatmulShape& part : product.shapes) product.parts.push_back(make_matmul(part));
  omp_set_num_threads(threads_.count());
  return product;
}

void Primitives::run_parts(Product& product, const char* a, const char* b, char* c) {
  constexpr std::int64_t kPage = 4096;
  std::int64_t scratchpad = 1;
  for (const Prepared& part : product.parts) scratchpad = std::max(scratchpad, part.scratchpad_bytes);
  scratchpad = (scratchpad + kPage - 1) / kPage * kPage;
  char* scratch =
      workspace_.array<char>(Area::onednn, scratchpad * static_cast<std::int64_t>(product.parts.size()));
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < product.parts.size(); ++i) {
    const MatmulShape& s = product.shapes[i];
    const std::int64_t in = size_of(s.input), out = size_of(s.output);
    const std::int64_t a_at = product.by_rows ? (s.transpose_a ? begin : begin * s.lda) : 0;
    const std::int64_t b_at = product.by_rows ? 0 : (s.transpose_b ? begin * s.ldb : begin);
    const std::int64_t c_at = product.by_rows ? begin * s.ldc : begin;
    std::vector<dnnl::memory>& memories = product.parts[i].memories;
    memories[0].set_data_handle(const_cast<char*>(a + a_at * in));
    memories[1].set_data_handle(const_cast<char*>(b + b_at * in));
    memories[2].set_data_handle(c + c_at * out);
    memories[3].set_data_handle(scratch + static_cast<std::int64_t>(i) * scratchpad);
    begin += product.by_rows ? s.m : s.n;
  }
  std::atomic<dnnl_status_t> status = dnnl_success;  // no exception leaves a thread of the team
  threads_.run([&](int thread, int threads) {
    for (auto i = static_cast<std::size_t>(thread); i < product.parts.size();
         i += static_cast<std::size_t>(threads)) {
      const dnnl_status_t own = execute(product.parts[i]);
      if (own != dnnl_success) status = own;
    }
  });
  check(status);
}

void Primitives::matmul(const MatmulShape& shape, const void* a, const void* b, void* c) {
  auto found = products_.find(shape);
  if (found == products_.end()) found = products_.emplace(shape, make_product(shape)).first;
  Product& product = found->second;
  if (product.parts.size() == 1)
    return run(product.parts[0], {const_cast<void*>(a), const_cast<void*>(b), c});
  run_parts(product, static_cast<const char*>(a), static_cast<const char*>(b), static_cast<char*>(c));
}

Primitives::Prepared Primitives::make_reorder(const MemoryDesc& from, const MemoryDesc& to) {
  const dnnl::reorder::primitive_desc desc(engine_, from, engine_, to, attributes());
  return prepare(dnnl::reorder(desc), desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Primitives::Convolution Primitives::make_convolution(const ConvolutionKey& key) {
  const ConvShape s{key.n, key.h, key.w, key.c_in, key.c_out, key.kernel, key.stride, key.padding};
  const auto type = type_of(key.type), out_type = type_of(key.out_type);
  const bool weight_gradient = key.direction == Direction::backward_weight;
  const MemoryDesc canonical({s.c_out, s.c_in, s.kernel, s.kernel}, weight_gradient ? out_type : type,
                             Tag::ohwi);
  ConvolutionDesc d;
  const auto x_desc = [&](auto t) { return MemoryDesc({s.n, s.c_in, s.h, s.w}, t, Tag::nhwc); };
  const auto y_desc = [&](auto t) { return MemoryDesc({s.n, s.c_out, s.out_h(), s.out_w()}, t, Tag::nhwc); };
  const auto w_desc = [&](auto t) { return MemoryDesc({s.c_out, s.c_in, s.kernel, s.kernel}, t, Tag::any); };
  d.forward_x = x_desc(type), d.forward_w = w_desc(type), d.forward_y = y_desc(type);
  d.x = x_desc(key.direction == Direction::backward_data ? out_type : type);
  d.w = w_desc(weight_gradient ? out_type : type);
  d.y = y_desc(key.direction == Direction::forward ? out_type : type);
  d.stride = {s.stride, s.stride};
  d.padding_begin = {s.padding, s.padding};
  d.padding_end = {(s.out_h() - 1) * s.stride + s.kernel - s.h - s.padding,
                   (s.out_w() - 1) * s.stride + s.kernel - s.w - s.padding};
  const dnnl::primitive_attr attr = attributes();

  Convolution result;
  MemoryDesc own;
  if (key.direction == Direction::forward) {
    const auto desc = describe_forward(engine_, d, attr);
    own = desc.weights_desc();
    result.main = prepare(dnnl::convolution_forward(desc), desc,
                          {{DNNL_ARG_SRC, d.x}, {DNNL_ARG_WEIGHTS, own}, {DNNL_ARG_DST, d.y}});
  } else if (key.direction == Direction::backward_data) {
    const auto desc = describe_backward_data(engine_, d, attr);
    own = desc.weights_desc();
    result.main = prepare(dnnl::convolution_backward_data(desc), desc,
                          {{DNNL_ARG_DIFF_DST, d.y}, {DNNL_ARG_WEIGHTS, own}, {DNNL_ARG_DIFF_SRC, d.x}});
  } else {
    const auto desc = describe_backward_weights(engine_, d, attr);
    own = desc.diff_weights_desc();
    result.main = prepare(dnnl::convolution_backward_weights(desc), desc,
                          {{DNNL_ARG_SRC, d.x}, {DNNL_ARG_DIFF_DST, d.y}, {DNNL_ARG_DIFF_WEIGHTS, own}});
  }
  result.needs_reorder = own != canonical;
  result.main.weights_bytes = static_cast<std::int64_t>(own.get_size());
  if (result.needs_reorder) {
    result.reorder = weight_gradient ? make_reorder(own, canonical) : make_reorder(canonical, own);
  }
  return result;
}

void Primitives::convolution(Direction direction, const ConvShape& s, DType type, DType out_type,
                             const void* first, const void* second, void* out) {
  const ConvolutionKey key{direction, type,    out_type, s.n,      s.h,      s.w,
                           s.c_in,    s.c_out, s.kernel, s.stride, s.padding};
  auto found = convolutions_.find(key);
  if (found == convolutions_.end()) found = convolutions_.emplace(key, make_convolution(key)).first;
  Convolution& convolution = found->second;
  void* in = const_cast<void*>(first);
  void* other = const_cast<void*>(second);
  if (!convolution.needs_reorder) return run(convolution.main, {in, other, out});
  void* own = workspace_.get(Area::weights, convolution.main.weights_bytes);
  if (direction == Direction::backward_weight) {
    run(convolution.main, {in, other, own});
    run(convolution.reorder, {own, out});
  } else {
    run(convolution.reorder, {other, own});
    run(convolution.main, {in, own, out});
  }
}

}  // namespace lockstep::cpu
