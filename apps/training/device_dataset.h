// A data set where the ops can read it, and the batch that is picked from it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/dataset.h"
#include "kernels/context.h"

namespace lockstep {

// The pictures of `dataset`, as uint8: borrowed where the device reads host memory, else copied once.
// `dataset` must outlive it.
class DeviceDataset {
 public:
  DeviceDataset(Context& context, const Dataset& dataset, bool host_memory, std::int64_t batch);

  ~DeviceDataset();  // waits for batches that are on their way to the device
  DeviceDataset(const DeviceDataset&) = delete;
  DeviceDataset& operator=(const DeviceDataset&) = delete;

  const Dataset& host() const { return dataset_; }
  TensorView images() const { return images_; }

  // Makes `indices` the current batch (at most `batch` of them), in this epoch. The host does not wait for
  // the device, unless two batches are still on their way to it.
  void select(Context& context, std::span<const std::int64_t> indices, std::int64_t epoch);
  TensorView labels() const { return labels_; }  // i32 [n]

  // Crop and flip (training only) and normalisation into `input` [n,h,w,3] of the compute type.
  void augment(Context& context, bool train, std::uint64_t seed, const TensorView& input) const;

 private:
  const Dataset& dataset_;
  Buffer image_memory_, batch_memory_;
  TensorView images_;
  TensorView epoch_, samples_, labels_;  // i32: [1]; rows of images_ [n], and their labels [n]
  struct Staged {
    Buffer memory;  // epoch, samples, labels on the host
    Event copied;
  };
  std::array<Staged, 2> staged_;
  std::size_t next_ = 0;  // of staged_
};

}  // namespace lockstep
