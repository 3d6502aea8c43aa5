// A data set where the ops can read it, and the batch that is picked from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "kernels/context.h"

namespace lockstep {

// The pictures of `dataset`, as uint8: borrowed where the device reads host memory, else copied once.
// `dataset` must outlive it.
class DeviceDataset {
 public:
  DeviceDataset(Context& context, const Dataset& dataset, bool host_memory, std::int64_t batch);

  const Dataset& host() const { return dataset_; }
  TensorView images() const { return images_; }

  // Makes `indices` the current batch (at most `batch` of them).
  void select(Context& context, std::span<const std::int64_t> indices);
  TensorView labels() const { return labels_; }  // i32 [n]

  // Crop and flip (training only) and normalisation into `input` [n,h,w,3] of f32 or bf16.
  void augment(Context& context, bool train, std::uint64_t seed, std::int64_t epoch,
               const TensorView& input) const;

 private:
  const Dataset& dataset_;
  Buffer image_memory_, batch_memory_;
  TensorView images_;
  TensorView samples_, labels_;       // i32 [n]: rows of images_, and their labels
  std::vector<std::int32_t> staged_;  // samples, then labels
};

}  // namespace lockstep
