// Softmax cross-entropy with label smoothing (C. Szegedy et al., 2016; torch.nn.CrossEntropyLoss), and its
// gradient.
#include <cmath>
#include <vector>

#include "kernels/reference/numeric.h"
#include "kernels/reference/ops.h"

namespace lockstep::reference {
namespace {

using Row = std::vector<double>;

// log softmax_k = z_k - max - log(sum exp(z - max)). A NaN among the logits makes every entry NaN.
Row log_softmax(const Row& logits) {
  double maximum = logits[0];
  for (const double z : logits) {
    if (z > maximum) maximum = z;
  }
  double sum = 0;
  for (const double z : logits) sum += std::exp(z - maximum);
  Row result(logits);
  for (double& value : result) value = value - maximum - std::log(sum);
  return result;
}

// Whether the first largest logit is the label; false where any logit is NaN.
bool is_correct(const Row& logits, std::size_t label) {
  std::size_t best = 0;
  for (std::size_t k = 0; k < logits.size(); ++k) {
    if (std::isnan(logits[k])) return false;
    if (logits[k] > logits[best]) best = k;
  }
  return best == label;
}

double target(std::size_t k, std::size_t label, double smoothing, std::size_t classes) {
  return (k == label ? 1.0 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
}

}  // namespace

void softmax_cross_entropy(const TensorView& logits, const TensorView& labels, float smoothing,
                           const TensorView& gradient_scale, const TensorView& loss,
                           const TensorView& correct, const TensorView& dlogits) {
  const double scale = gradient_scale ? load(gradient_scale.as<float>()[0]) : 1.0;
  const auto batch = static_cast<std::size_t>(logits.shape[0]);
  const auto classes = static_cast<std::size_t>(logits.shape[1]);
  with_compute_type(logits.dtype, [&](auto type) {
    using T = decltype(type);
    double loss_sum = 0;
    std::int32_t correct_count = 0;
    Row z(classes);
    for (std::size_t n = 0; n < batch; ++n) {
      const std::int32_t label_value = labels.as<std::int32_t>()[n];
      const auto label = static_cast<std::size_t>(label_value);
      LOCKSTEP_CHECK(label_value >= 0 && label < classes,
                     "softmax_cross_entropy: labels[{}] is {}, classes {}", n, label_value, classes);
      for (std::size_t k = 0; k < classes; ++k) z[k] = load(logits.as<T>()[n * classes + k]);
      const Row log_probability = log_softmax(z);
      for (std::size_t k = 0; k < classes; ++k) {
        const double t = target(k, label, load(smoothing), classes);
        if (t > 0) loss_sum -= t * log_probability[k];  // 0 * log 0 counts as 0
        if (!dlogits) continue;
        store(dlogits.as<T>()[n * classes + k],
              (std::exp(log_probability[k]) - t) / static_cast<double>(batch) * scale);
      }
      if (is_correct(z, label)) ++correct_count;
    }
    store(loss.as<float>()[0], loss_sum / static_cast<double>(batch));
    correct.as<std::int32_t>()[0] = correct_count;
  });
}

}  // namespace lockstep::reference
