// Softmax cross-entropy with label smoothing, its gradient, and the count of correct answers.
#include "kernels/contracts.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/machine.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/vector.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kRowsPerBlock = kThreads / kWarp;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

// The first largest of some logits; nan: whether one of them is a NaN.
struct Largest {
  float value;
  int position;
  int nan;
};

// Of a whole row; every lane gets it. A NaN is never the largest.
template <class T>
__device__ __forceinline__ Largest largest_of(const T* logits, int classes, int lane) {
  Largest best{-INFINITY, classes, 0};
  for (int k = lane; k < classes; k += kWarp) {
    const float z = to_float(logits[k]);
    if (z > best.value || best.position == classes) best = {z != z ? -INFINITY : z, k, best.nan};
    if (z != z) best.nan = 1;
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float value = __shfl_xor_sync(kAllLanes, best.value, distance);
    const int position = __shfl_xor_sync(kAllLanes, best.position, distance);
    best.nan |= __shfl_xor_sync(kAllLanes, best.nan, distance);
    if (value > best.value || (value == best.value && position < best.position)) {
      best.value = value;
      best.position = position;
    }
  }
  return best;
}

// For each row: log_softmax_k = z_k - max - log(sum exp(z - max)), loss = -sum target * log_softmax, correct
// = whether the first largest logit is the label and none is a NaN, dlogits = (softmax - target) / rows *
// gradient_scale (may be null: 1);
// target = (1 - smoothing) * onehot + smoothing / classes. A target of 0 adds nothing, even where log_softmax
// is infinite. Mapping: a warp a row, its lanes stride over the classes; the row stays in the cache between
// the three passes. Bytes: reads logits, writes dlogits (may be null), once. Deterministic: lanes add up as a
// tree.
template <class T>
__global__ void softmax_cross_entropy_kernel(const T* logits, const std::int32_t* labels, float smoothing,
                                             const float* gradient_scale, std::int64_t rows, int classes,
                                             float* row_loss, std::int32_t* row_correct, T* dlogits) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + thread / kWarp;
  if (row >= rows) return;  // the whole warp
  const T* z = logits + row * classes;
  const int label = labels[row];
  const Largest largest = largest_of(z, classes, lane);
  float sum = 0.0f;
  for (int k = lane; k < classes; k += kWarp) sum += expf(to_float(z[k]) - largest.value);
  sum = warp_sum(sum);

  const float log_sum = logf(sum), everywhere = smoothing / static_cast<float>(classes);
  const float scale = (gradient_scale ? *gradient_scale : 1.0f) / static_cast<float>(rows);
  float loss = 0.0f;
  for (int k = lane; k < classes; k += kWarp) {
    const float shifted = to_float(z[k]) - largest.value;
    const float target = everywhere + (k == label ? 1.0f - smoothing : 0.0f);
    if (target > 0.0f) loss = fmaf(-target, shifted - log_sum, loss);
    if (dlogits) convert((expf(shifted) / sum - target) * scale, dlogits[row * classes + k]);
  }
  loss = warp_sum(loss);
  if (lane != 0) return;
  row_loss[row] = label >= 0 && label < classes ? loss : NAN;
  row_correct[row] = largest.nan == 0 && largest.position == label ? 1 : 0;
}

// loss = mean of row_loss, correct = sum of row_correct. Mapping: one block; a thread adds every kThreads-th
// row in order, the threads add up as a tree. Bytes: reads 8 a row. Deterministic.
__global__ void cross_entropy_mean_kernel(const float* row_loss, const std::int32_t* row_correct,
                                          std::int64_t rows, float* loss, std::int32_t* correct) {
  static __shared__ float losses[kThreads];
  static __shared__ std::int32_t counts[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  float sum = 0.0f;
  std::int32_t count = 0;
  for (std::int64_t row = thread; row < rows; row += kThreads) {
    sum += row_loss[row];
    count += row_correct[row];
  }
  losses[thread] = sum;
  counts[thread] = count;
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    __syncthreads();
    if (thread < distance) {
      losses[thread] += losses[thread + distance];
      counts[thread] += counts[thread + distance];
    }
  }
  if (thread != 0) return;
  *loss = losses[0] / static_cast<float>(rows);
  *correct = counts[0];
}

template <class T>
void run(Machine& machine, Stream& stream, const TensorView& logits, const TensorView& labels,
         float smoothing, const TensorView& gradient_scale, const TensorView& loss, const TensorView& correct,
         const TensorView& dlogits) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
  LOCKSTEP_CHECK(classes < (std::int64_t{1} << 30), "softmax_cross_entropy: {} classes", classes);
  // One area for both: a loss and a count are four bytes each.
  static_assert(sizeof(float) == sizeof(std::int32_t));
  float* row_loss = machine.workspace.array<float>(Area::sums, 2 * rows);
  auto* row_correct = reinterpret_cast<std::int32_t*>(row_loss + rows);
  launch("softmax_cross_entropy_kernel", stream, blocks_for(rows, kRowsPerBlock), kThreads,
         softmax_cross_entropy_kernel<T>, static_cast<const T*>(logits.data), labels.as<std::int32_t>(),
         smoothing, gradient_scale ? gradient_scale.as<float>() : nullptr, rows, static_cast<int>(classes),
         row_loss, row_correct, static_cast<T*>(dlogits.data));
  launch("cross_entropy_mean_kernel", stream, 1, kThreads, cross_entropy_mean_kernel, row_loss, row_correct,
         rows, loss.as<float>(), correct.as<std::int32_t>());
}

}  // namespace

void softmax_cross_entropy(Machine& machine, Stream& stream, const TensorView& logits,
                           const TensorView& labels, float smoothing, const TensorView& gradient_scale,
                           const TensorView& loss, const TensorView& correct, const TensorView& dlogits) {
  contract::softmax_cross_entropy(logits, labels, smoothing, gradient_scale, loss, correct, dlogits);
  with_compute_type(logits.dtype, [&](auto type) {
    run<decltype(type)>(machine, stream, logits, labels, smoothing, gradient_scale, loss, correct, dlogits);
  });
}

}  // namespace lockstep::cuda
