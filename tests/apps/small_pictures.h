// A data set of a few pictures.
#pragma once

#include <cstdint>
#include <string>

#include "apps/temporary_directory.h"

namespace lockstep::test {

// 40 training and 8 test pictures in CIFAR-10's format.
inline void write_pictures(const TemporaryDirectory& directory) {
  std::uint32_t state = 1;
  for (const char* name :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
    std::string records;
    for (int i = 0; i < 8; ++i) {
      records.push_back(static_cast<char>(i));
      for (int pixel = 0; pixel < 3072; ++pixel) {
        records.push_back(static_cast<char>((state = state * 1664525u + 1013904223u) >> 24));
      }
    }
    write_text(directory.file(std::string(name) + ".bin"), records);
  }
}

}  // namespace lockstep::test
