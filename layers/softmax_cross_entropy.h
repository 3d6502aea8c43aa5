// The loss: softmax cross-entropy with label smoothing, and how many predictions were right.
#pragma once

#include <string>

#include "core/arena.h"
#include "layers/pass.h"

namespace lockstep {

class SoftmaxCrossEntropy {
 public:
  SoftmaxCrossEntropy(std::string name, float smoothing) : name_(std::move(name)), smoothing_(smoothing) {}

  // Where the results go: loss f32 [1], the mean over the batch; correct i32 [1].
  void layout(const TensorView& loss, const TensorView& correct);
  void layout(Arena& arena);
  static constexpr std::int64_t kMemory = 2 * Arena::kAlignment;  // bytes that it takes there
  // labels: i32 [n]. Writes loss() and correct(), and the gradient of the mean loss, times gradient_scale
  // (f32 [1], or "no tensor"), into dlogits, which may be "no tensor" (evaluation).
  void forward(const ForwardPass& pass, const TensorView& logits, const TensorView& labels,
               const TensorView& gradient_scale, const TensorView& dlogits) const;

  const TensorView& loss() const { return loss_; }        // f32 [1]: mean over the batch
  const TensorView& correct() const { return correct_; }  // i32 [1]

 private:
  std::string name_;
  float smoothing_;
  TensorView loss_, correct_;
};

}  // namespace lockstep
