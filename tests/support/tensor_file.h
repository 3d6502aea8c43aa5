// Named tensors in a file, exchanged with tests/parity/tensor_file.py: for each tensor one line of text
//     NAME f32|i32 DIMS...
// and then its elements, little-endian, last dimension fastest.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"

namespace lockstep::test {

struct FileTensor {
  std::vector<std::int64_t> dims;
  std::vector<float> values;           // of an f32 tensor
  std::vector<std::int32_t> integers;  // of an i32 tensor
};

using TensorFile = std::map<std::string, FileTensor>;

inline TensorFile read_tensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ExitCode::data, "cannot read {}", path);
  TensorFile tensors;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, type;
    words >> name >> type;
    FileTensor& t = tensors[name];
    std::int64_t count = 1;
    for (std::int64_t d = 0; words >> d; count *= d) t.dims.push_back(d);
    void* data = nullptr;
    if (type == "f32") {
      t.values.resize(static_cast<std::size_t>(count));
      data = t.values.data();
    } else {
      t.integers.resize(static_cast<std::size_t>(count));
      data = t.integers.data();
    }
    if (!file.read(static_cast<char*>(data), count * 4))
      fail(ExitCode::data, "{}: {} is cut short", path, name);
  }
  return tensors;
}

inline void write_tensors(const std::string& path, const TensorFile& tensors) {
  std::ofstream file(path, std::ios::binary);
  for (const auto& [name, t] : tensors) {
    const bool real = t.integers.empty();
    file << name << (real ? " f32" : " i32");
    for (const std::int64_t d : t.dims) file << ' ' << d;
    file << '\n';
    const auto count = static_cast<std::streamsize>(real ? t.values.size() : t.integers.size());
    file.write(real ? reinterpret_cast<const char*>(t.values.data())
                    : reinterpret_cast<const char*>(t.integers.data()),
               count * 4);
  }
  if (!file.flush()) fail(ExitCode::data, "cannot write {}", path);
}

}  // namespace lockstep::test
