// Convolutions as matrix products. The pixels that one output pixel sees make a row of R*S*C values, its
// patch, in which padding is zero. With those rows as a matrix,
//   y = patches * w^T,   dw^T = patches^T * dy,   dpatches = dy * w, which scatters into dx.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cudasim/cudnn/plan.h"
#include "cudasim/tf32.h"

namespace cudasim {
namespace {

using Index = std::int64_t;
using Values = std::vector<float>;

constexpr Index kLanes = 16, kVectors = 2, kPanel = kLanes * kVectors;  // columns that are summed together
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

constexpr Index kPatchLimit = Index{1} << 22;  // values of patches that are alive at a time

// A matrix in panels of kPanel columns, row by row in each, filled up with zeros: what products read fast.
struct Panels {
  Panels(Index row_count, Index column_count)
      : rows(row_count), columns(column_count), data(static_cast<std::size_t>(rows * panels() * kPanel)) {}

  Index panels() const { return (columns + kPanel - 1) / kPanel; }
  float* panel(Index p) { return data.data() + p * rows * kPanel; }
  void set_row(Index row, const float* values) {
    for (Index i = 0; i < columns; i += kPanel) {
      std::copy_n(values + i, std::min(kPanel, columns - i), panel(i / kPanel) + row * kPanel);
    }
  }
  void get_row(Index row, float* values) {
    for (Index i = 0; i < columns; i += kPanel) {
      std::copy_n(panel(i / kPanel) + row * kPanel, std::min(kPanel, columns - i), values + i);
    }
  }
  void set_column(Index column, const float* values) {
    float* to = panel(column / kPanel) + column % kPanel;
    for (Index i = 0; i < rows; ++i) to[i * kPanel] = values[i];
  }
  void get_column(Index column, float* values) {
    const float* from = panel(column / kPanel) + column % kPanel;
    for (Index i = 0; i < rows; ++i) values[i] = from[i * kPanel];
  }

  Index rows, columns;
  Values data;
};

// The factor on the left: element (m, k) is data[m * row + k * column].
struct Left {
  const float* data;
  Index row, column;
};

// kRows rows of one panel of c, from row m on.
template <int kRows>
void multiply_block(const Left& a, Index m, Index depth, const float* b, float* c) {
  Lanes sums[kRows][kVectors];
  std::memcpy(sums, c + m * kPanel, sizeof sums);
  for (Index k = 0; k < depth; ++k) {
    Lanes factors[kVectors];
    std::memcpy(factors, b + k * kPanel, sizeof factors);
    for (int i = 0; i < kRows; ++i) {
      const float factor = a.data[(m + i) * a.row + k * a.column];
      for (int j = 0; j < kVectors; ++j) sums[i][j] += factor * factors[j];
    }
  }
  std::memcpy(c + m * kPanel, sums, sizeof sums);
}

// c += a * b.
void multiply(const Left& a, Panels& b, Panels& c) {
  constexpr int kRows = 6;
  for (Index p = 0; p < c.panels(); ++p) {
    Index m = 0;
    for (; m + kRows <= c.rows; m += kRows) multiply_block<kRows>(a, m, b.rows, b.panel(p), c.panel(p));
    for (; m < c.rows; ++m) multiply_block<1>(a, m, b.rows, b.panel(p), c.panel(p));
  }
}

float load(const float& value) {
  return value;
}
float load(const __nv_bfloat16& value) {
  return __bfloat162float(value);
}
float load(const __half& value) {
  return __half2float(value);
}
void store(float& to, float value) {
  to = value;
}
void store(__nv_bfloat16& to, float value) {
  to = __float2bfloat16_rn(value);
}
void store(__half& to, float value) {
  to = __float2half_rn(value);
}

// Calls use(elements) with the tensor's memory as its type.
template <class Use>
void with_elements(const Tensor& t, const Use& use) {
  switch (t.type) {
    case Type::f32:
      return use(static_cast<float*>(t.data));
    case Type::bf16:
      return use(static_cast<__nv_bfloat16*>(t.data));
    case Type::f16:
      return use(static_cast<__half*>(t.data));
  }
}

// Calls visit(dense index in N, H, W, C order, index in memory) for all elements of images [first, last).
template <class Visit>
void for_each(const Tensor& t, Index first, Index last, const Visit& visit) {
  Index dense = 0;
  for (Index n = first; n < last; ++n) {
    for (Index h = 0; h < t.dims[2]; ++h) {
      for (Index w = 0; w < t.dims[3]; ++w) {
        const Index pixel = n * t.strides[0] + h * t.strides[2] + w * t.strides[3];
        for (Index c = 0; c < t.dims[1]; ++c) visit(dense++, pixel + c * t.strides[1]);
      }
    }
  }
}

// The factors in `t`.
Values dense(const Plan& plan, const Tensor& t, Index first, Index last) {
  Values values(static_cast<std::size_t>((last - first) * t.dims[1] * t.dims[2] * t.dims[3]));
  float* to = values.data();
  with_elements(t, [&](const auto* elements) {
    for_each(t, first, last, [&](Index i, Index at) { to[i] = load(elements[at]); });
  });
  if (plan.tf32) std::transform(values.begin(), values.end(), values.begin(), to_tf32);
  return values;
}

// The result of the plan, from sums in N, H, W, C order.
void write(const Plan& plan, const Tensor& t, Index first, Index last, const Values& sums) {
  const float* from = sums.data();
  with_elements(t, [&](auto* elements) {
    for_each(t, first, last, [&](Index i, Index at) {
      const float before = plan.beta != 0 ? plan.beta * load(elements[at]) : 0.0f;
      store(elements[at], plan.alpha * from[i] + before);
    });
  });
}

struct Sizes {
  explicit Sizes(const Plan& plan)
      : pixels(plan.y.dims[2] * plan.y.dims[3]),
        patch(plan.w.dims[1] * plan.w.dims[2] * plan.w.dims[3]),
        c_in(plan.x.dims[1]),
        c_out(plan.y.dims[1]),
        image(plan.x.dims[1] * plan.x.dims[2] * plan.x.dims[3]),
        chunk(std::clamp(kPatchLimit / (pixels * patch), Index{1}, plan.x.dims[0])) {}

  Index pixels, patch, c_in, c_out, image, chunk;  // chunk: images at a time
};

// Calls visit(offset in the patches, offset in x) for each position of each patch that lies inside of the
// image; c_in values follow on both sides.
template <class Visit>
void for_each_position(const Plan& plan, Index images, const Visit& visit) {
  const Sizes sizes(plan);
  Index at = 0;
  for (Index n = 0; n < images; ++n) {
    for (Index p = 0; p < plan.y.dims[2]; ++p) {
      for (Index q = 0; q < plan.y.dims[3]; ++q) {
        for (Index r = 0; r < plan.w.dims[2]; ++r) {
          const Index row = p * plan.stride[0] - plan.padding[0] + r * plan.dilation[0];
          for (Index s = 0; s < plan.w.dims[3]; ++s, at += sizes.c_in) {
            const Index column = q * plan.stride[1] - plan.padding[1] + s * plan.dilation[1];
            if (row < 0 || row >= plan.x.dims[2] || column < 0 || column >= plan.x.dims[3]) continue;
            visit(at, n * sizes.image + (row * plan.x.dims[3] + column) * sizes.c_in);
          }
        }
      }
    }
  }
}

Values gather(const Plan& plan, Index first, Index last) {
  const Sizes sizes(plan);
  const Values x = dense(plan, plan.x, first, last);
  Values patches(static_cast<std::size_t>((last - first) * sizes.pixels * sizes.patch));
  for_each_position(plan, last - first, [&](Index patch, Index pixel) {
    std::copy_n(x.data() + pixel, sizes.c_in, patches.data() + patch);
  });
  return patches;
}

// A buffer of rows by columns values, none of them set.
Values values_of(Index rows, Index columns) {
  return Values(static_cast<std::size_t>(rows * columns));
}

void forward(const Plan& plan, Index first, Index last) {
  const Sizes sizes(plan);
  const Values patches = gather(plan, first, last), w = dense(plan, plan.w, 0, sizes.c_out);
  Panels weights(sizes.patch, sizes.c_out), y((last - first) * sizes.pixels, sizes.c_out);
  for (Index k = 0; k < sizes.c_out; ++k) weights.set_column(k, w.data() + k * sizes.patch);
  multiply({patches.data(), sizes.patch, 1}, weights, y);
  Values sums = values_of(y.rows, y.columns);
  for (Index row = 0; row < y.rows; ++row) y.get_row(row, sums.data() + row * y.columns);
  write(plan, plan.y, first, last, sums);
}

void backward_data(const Plan& plan, Index first, Index last) {
  const Sizes sizes(plan);
  const Values dy = dense(plan, plan.y, first, last), w = dense(plan, plan.w, 0, sizes.c_out);
  Panels weights(sizes.c_out, sizes.patch), product((last - first) * sizes.pixels, sizes.patch);
  for (Index k = 0; k < sizes.c_out; ++k) weights.set_row(k, w.data() + k * sizes.patch);
  multiply({dy.data(), sizes.c_out, 1}, weights, product);
  Values patches = values_of(product.rows, product.columns), dx = values_of(last - first, sizes.image);
  for (Index row = 0; row < product.rows; ++row) product.get_row(row, patches.data() + row * sizes.patch);
  for_each_position(plan, last - first, [&](Index patch, Index pixel) {
    for (Index c = 0; c < sizes.c_in; ++c) dx.data()[pixel + c] += patches.data()[patch + c];
  });
  write(plan, plan.x, first, last, dx);
}

void add_weight_gradient(const Plan& plan, Index first, Index last, Panels& dw) {
  const Sizes sizes(plan);
  const Values patches = gather(plan, first, last), values = dense(plan, plan.y, first, last);
  Panels dy((last - first) * sizes.pixels, sizes.c_out);
  for (Index row = 0; row < dy.rows; ++row) dy.set_row(row, values.data() + row * sizes.c_out);
  multiply({patches.data(), 1, sizes.patch}, dy, dw);
}

}  // namespace

void compute(Plan plan) {
  const Sizes sizes(plan);
  Panels dw(plan.direction == Direction::backward_weight ? sizes.patch : 0, sizes.c_out);
  for (Index first = 0; first < plan.x.dims[0]; first += sizes.chunk) {
    const Index last = std::min(first + sizes.chunk, plan.x.dims[0]);
    switch (plan.direction) {
      case Direction::forward:
        forward(plan, first, last);
        break;
      case Direction::backward_data:
        backward_data(plan, first, last);
        break;
      case Direction::backward_weight:
        add_weight_gradient(plan, first, last, dw);
        break;
    }
  }
  if (plan.direction != Direction::backward_weight) return;
  Values sums = values_of(sizes.c_out, sizes.patch);
  for (Index k = 0; k < sizes.c_out; ++k) dw.get_column(k, sums.data() + k * sizes.patch);
  write(plan, plan.w, 0, sizes.c_out, sums);
}

}  // namespace cudasim
