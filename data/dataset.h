// Labelled pictures in memory, as the CIFAR-10 files hold them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// images: count records of channels * height * width bytes, planar (all red, all green, all blue).
struct Dataset {
  std::string name;
  std::int64_t channels = 3, height = 32, width = 32;
  int classes = 10;
  float mean[3] = {};  // of pixel / 255, a constant of the data set
  float deviation[3] = {};
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t image_bytes() const { return channels * height * width; }
};

struct DatasetPair {
  Dataset train, test;
};

// The CIFAR-10 binary version: directory, or directory/cifar-10-batches-bin, with data_batch_1..5.bin and
// test_batch.bin; a record is one label byte and 3072 image bytes. Any whole number of records is accepted in
// a file. Error(data) naming file and offset: missing, unreadable, empty, not a whole number of records, a
// label above 9, a file that is text (an HTML error page).
DatasetPair load_cifar10(const std::string& directory);

// The embedded default: ten classes of drawn shapes and textures, 10,000 + 2,000 pictures, a pure function of
// the seed. Learnable, but not by a linear model.
DatasetPair make_synthetic(std::uint64_t seed);

// The first n samples. Error(usage) naming `option` where the set has fewer.
void limit(Dataset& dataset, std::int64_t n, const std::string& option);

}  // namespace lockstep
