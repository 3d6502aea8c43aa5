// Labelled pictures in memory, as the CIFAR-10 files hold them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
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
// test_batch.bin; a record is one label byte and 3072 image bytes. Sets smaller than the official one are
// accepted: any number of records, the same in each of the five.
// Error(data) naming file and offset: missing, unreadable, empty, text (an HTML error page), not a whole
// number of records, training files of unequal length, a test file in which one class lacks one record of
// balance (so cut by a record), a label above 9.
DatasetPair load_cifar10(const std::string& directory);

// The embedded default: ten classes of drawn shapes and textures, 10,000 + 2,000 pictures, a pure function of
// the seed, the same on every machine. Learnable, but not by a linear model.
DatasetPair make_synthetic(std::uint64_t seed);
// "disc", "square", ...: the classes of make_synthetic, by label.
const std::array<const char*, 10>& synthetic_class_names();

// Writes the files that load_cifar10 reads, and batches.meta.txt with the names of the classes, into the new
// folder directory/cifar-10-batches-bin; returns its path. Training samples beyond a multiple of five are
// left out. The folder appears whole: it is written beside its place and renamed. Error(data): it exists
// already (nothing is overwritten), or a file cannot be written; then nothing stays.
std::string write_cifar10(const DatasetPair& pair, std::span<const char* const> class_names,
                          const std::string& directory);

// The first n samples. Error(usage) naming `option` where the set has fewer.
void limit(Dataset& dataset, std::int64_t n, const std::string& option);

}  // namespace lockstep
