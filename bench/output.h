// Where results go. A table that cannot be written whole is an error.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "core/error.h"

namespace lockstep::bench {

// A file is opened before the measurements (mode app), since they take long. An earlier result stays until
// they are done. An empty path: nothing.
inline void write(const char* option, const std::string& path, std::ios::openmode mode,
                  const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path, mode);
  file << text;
  if (!file.flush()) fail(ExitCode::data, "{} {}: cannot write: {}", option, path, std::strerror(errno));
}

inline void print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    fail(ExitCode::data, "cannot write to standard output: {}", std::strerror(errno));
}

inline void refuse_one_file(const std::string& csv, const std::string& json) {
  if (!csv.empty() && csv == json)
    fail(ExitCode::usage, "--csv and --json name the same file, {}: give each its own", csv);
}

}  // namespace lockstep::bench
