// Softmax cross-entropy with label smoothing (C. Szegedy et al., 2016) and its gradient. A batch has a few
// hundred logits, so one thread does it in double.
#include <cmath>

#include "kernels/cpu/ops.h"

namespace lockstep::cpu {
namespace {

template <class T>
struct Row {
  const T* logits;
  std::int64_t classes;
  double operator[](std::int64_t k) const { return static_cast<double>(static_cast<float>(logits[k])); }
};

// The first largest logit, or -1 where one is a NaN.
template <class T>
std::int64_t first_largest(const Row<T>& row) {
  std::int64_t best = 0;
  for (std::int64_t k = 0; k < row.classes; ++k) {
    if (std::isnan(row[k])) return -1;
    if (row[k] > row[best]) best = k;
  }
  return best;
}

// log(sum exp(logit)), without overflow.
template <class T>
double log_sum_exp(const Row<T>& row) {
  double maximum = row[0];
  for (std::int64_t k = 1; k < row.classes; ++k) {
    if (row[k] > maximum) maximum = row[k];
  }
  double sum = 0;
  for (std::int64_t k = 0; k < row.classes; ++k) sum += std::exp(row[k] - maximum);
  return maximum + std::log(sum);
}

}  // namespace

void softmax_cross_entropy(Machine&, const TensorView& logits, const TensorView& labels, float smoothing,
                           const TensorView& gradient_scale, const TensorView& loss,
                           const TensorView& correct, const TensorView& dlogits) {
  const double scale = gradient_scale ? static_cast<double>(gradient_scale.as<float>()[0]) : 1.0;
  const std::int64_t batch = logits.shape[0], classes = logits.shape[1];
  const double smooth = static_cast<double>(smoothing), off = smooth / static_cast<double>(classes);
  with_compute_type(logits.dtype, [&](auto type) {
    using T = decltype(type);
    double loss_sum = 0;
    std::int32_t correct_count = 0;
    for (std::int64_t n = 0; n < batch; ++n) {
      const std::int32_t label = labels.as<std::int32_t>()[n];
      LOCKSTEP_CHECK(label >= 0 && label < classes, "softmax_cross_entropy: labels[{}] is {}, classes {}", n,
                     label, classes);
      const Row<T> row{logits.as<T>() + n * classes, classes};
      const double log_sum = log_sum_exp(row);
      for (std::int64_t k = 0; k < classes; ++k) {
        const double log_probability = row[k] - log_sum;
        const double target = (k == label ? 1.0 - smooth : 0.0) + off;
        if (target > 0) loss_sum -= target * log_probability;  // 0 * log 0 counts as 0
        if (!dlogits) continue;
        const double gradient = (std::exp(log_probability) - target) / static_cast<double>(batch) * scale;
        dlogits.as<T>()[n * classes + k] = T(static_cast<float>(gradient));
      }
      if (first_largest(row) == label) ++correct_count;
    }
    loss.as<float>()[0] = static_cast<float>(loss_sum / static_cast<double>(batch));
    correct.as<std::int32_t>()[0] = correct_count;
  });
}

}  // namespace lockstep::cpu
