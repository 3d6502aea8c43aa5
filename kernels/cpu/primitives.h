// oneDNN's primitives, made on first use and kept: one for each shape, type and mode.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/workspace.h"

namespace lockstep::cpu {

// C[m,n] (+)= A[m,k] B[k,n], row-major with leading dimensions. A transposed operand lies as [k][m] or
// [n][k].
struct MatmulShape {
  std::int64_t m = 0, k = 0, n = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  DType input = DType::f32, output = DType::f32;
  auto operator<=>(const MatmulShape&) const = default;
};

enum class Direction { forward, backward_data, backward_weight };

class Primitives {
 public:
  Primitives(Workspace& workspace, const Threads& threads);

  // Cut into a part a thread where that is known to be faster: by rows (of c), so that a thread finds in its
  // cache what it wrote before, or by columns, so that no two threads copy the same weights.
  void matmul(const MatmulShape& shape, const void* a, const void* b, void* c);

  // out = the convolution's y, dx or dw (always overwritten), x and y in `type`, dw in f32; weights are
  // canonical.
  //   forward: first = x, second = w; backward_data: first = dy, second = w; backward_weight: first = x,
  //   second = dy
  void convolution(Direction direction, const ConvShape& shape, DType type, DType out_type, const void* first,
                   const void* second, void* out);

 private:
  // A primitive with the memory objects of its arguments, whose pointers change from call to call.
  struct Prepared {
    dnnl::primitive primitive;
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
    std::int64_t scratchpad_bytes = 0;
    std::int64_t weights_bytes = 0;  // of a convolution's own weight layout
  };
  // A matrix product in one primitive on all threads, or in one a thread.
  struct Product {
    std::vector<Prepared> parts;
    std::vector<MatmulShape> shapes;
    bool by_rows = false;
  };
  struct ConvolutionKey {
    Direction direction;
    DType type, out_type;
    std::int64_t n, h, w, c_in, c_out, kernel, stride, padding;
    auto operator<=>(const ConvolutionKey&) const = default;
  };
  struct Convolution {
    Prepared main, reorder;
    bool needs_reorder = false;
  };

  template <class PrimitiveDesc>
  Prepared prepare(dnnl::primitive primitive, const PrimitiveDesc& desc,
                   const std::vector<std::pair<int, MemoryDesc>>& arguments);
  void run(Prepared& prepared, const std::vector<void*>& pointers);
  dnnl_status_t execute(Prepared& prepared);
  Prepared make_matmul(const MatmulShape& shape);
  Product make_product(const MatmulShape& shape);
  void run_parts(Product& product, const char* a, const char* b, char* c);
  Convolution make_convolution(const ConvolutionKey& key);
  Prepared make_reorder(const MemoryDesc& from, const MemoryDesc& to);

  Workspace& workspace_;
  const Threads& threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<MatmulShape, Product> products_;
  std::map<ConvolutionKey, Convolution> convolutions_;
};

// Whether the machine multiplies bf16 in hardware and oneDNN uses it.
bool has_fast_bf16();

}  // namespace lockstep::cpu
