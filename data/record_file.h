// One file of fixed-size records, each a label byte and then the picture's bytes.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// Checks at opening what can be seen without reading it all; read() checks the labels.
class RecordFile {
 public:
  // Error(data) naming the file: missing, unreadable, not a regular file, empty, text instead of records (an
  // HTML error page), not a whole number of records.
  RecordFile(std::string path, std::int64_t image_bytes, int classes);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t records() const { return records_; }

  // Fills images [records, image_bytes] and labels [records], straight from the file, without a copy in
  // between. Error(data) with file and offset: a label outside the classes, an I/O error, a file that became
  // shorter.
  void read(std::uint8_t* images, std::int32_t* labels);

 private:
  [[noreturn]] void fail_size(std::int64_t bytes) const;
  void check_is_not_text() const;
  void read_group(std::int64_t first, std::int64_t count, std::uint8_t* images, std::uint8_t* labels);

  std::string path_;
  std::int64_t image_bytes_;
  int classes_;
  int descriptor_ = -1;
  std::int64_t records_ = 0;
};

}  // namespace lockstep
