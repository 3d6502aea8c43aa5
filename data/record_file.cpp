#include "data/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace lockstep {

namespace {

constexpr const char* kRemedy = "Fetch the data set again: scripts/download_cifar10 DIR.";
// Two buffers a record (label, picture), and Linux takes up to 1024 buffers a call.
constexpr std::int64_t kGroup = 512;

// pread until `bytes` are there or the file ends.
std::int64_t read_head(int descriptor, char* head, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(descriptor, head + done, bytes - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

}  // namespace

RecordFile::RecordFile(std::string path, std::int64_t image_bytes, int classes)
    : path_(std::move(path)), image_bytes_(image_bytes), classes_(classes) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    const int reason = errno;
    if (reason == ENOENT) fail(ExitCode::data, "{} is missing. {}", path_, kRemedy);
    fail(ExitCode::data, "cannot open {}: {}. Check the permissions on this host.", path_,
         std::strerror(reason));
  }
  try {
    struct stat info {};
    if (fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) {
      fail(ExitCode::data, "{} is not a regular file. Give the directory that holds the batch files.", path_);
    }
    if (info.st_size == 0) fail(ExitCode::data, "{} is empty (0 bytes). {}", path_, kRemedy);
    check_is_not_text();
    if (info.st_size % (image_bytes_ + 1) != 0) fail_size(info.st_size);
    records_ = info.st_size / (image_bytes_ + 1);
    posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

RecordFile::~RecordFile() {
  close(descriptor_);
}

void RecordFile::fail_size(std::int64_t bytes) const {
  const std::int64_t record = image_bytes_ + 1;
  fail(ExitCode::data,
       "{} has {} bytes: {} whole records of {} bytes and {} bytes more ({} short of the next record). {}",
       path_, bytes, bytes / record, record, bytes % record, record - bytes % record, kRemedy);
}

// A download through a portal or of a moved page saves text under the right name. Its first byte is no label;
// a damaged batch file, whose first byte is none either, has bytes that are not text soon after.
void RecordFile::check_is_not_text() const {
  std::array<char, 128> head{};
  const auto size = static_cast<std::size_t>(read_head(descriptor_, head.data(), head.size()));
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; };
  const bool starts_with_label = size > 0 && static_cast<unsigned char>(head[0]) < classes_;
  if (size == 0 || starts_with_label || !std::all_of(head.begin(), head.begin() + size, is_text)) return;
  std::string start(head.data(), std::min<std::size_t>(size, 40));
  std::replace_if(
      start.begin(), start.end(), [](char c) { return c < ' '; }, ' ');
  const bool html = start.find('<') != std::string::npos;
  fail(ExitCode::data, "{} is {}, not a batch file: it begins with \"{}\". {}", path_,
       html ? "a web page (HTML)" : "a text file", start, kRemedy);
}

void RecordFile::read(std::uint8_t* images, std::int32_t* labels) {
  std::array<std::uint8_t, kGroup> bytes{};
  for (std::int64_t first = 0; first < records_; first += kGroup) {
    const std::int64_t count = std::min(kGroup, records_ - first);
    read_group(first, count, images + first * image_bytes_, bytes.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const int label = bytes[static_cast<std::size_t>(i)];
      if (label >= classes_) {
        fail(ExitCode::data, "{}: label {} at byte {} (record {}), but labels are 0 to {}. {}", path_, label,
             (first + i) * (image_bytes_ + 1), first + i, classes_ - 1, kRemedy);
      }
      labels[first + i] = label;
    }
  }
}

// Scatters `count` records into their two arrays; goes on where the kernel returned less than asked.
void RecordFile::read_group(std::int64_t first, std::int64_t count, std::uint8_t* images,
                            std::uint8_t* labels) {
  std::array<iovec, 2 * kGroup> parts{};
  for (std::int64_t i = 0; i < count; ++i) {
    parts[static_cast<std::size_t>(2 * i)] = {labels + i, 1};
    parts[static_cast<std::size_t>(2 * i + 1)] = {images + i * image_bytes_,
                                                  static_cast<std::size_t>(image_bytes_)};
  }
  iovec* part = parts.data();
  iovec* const end = part + 2 * count;
  std::int64_t offset = first * (image_bytes_ + 1);
  while (part != end) {
    const ssize_t got = preadv(descriptor_, part, static_cast<int>(end - part), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ExitCode::data, "{}: reading at byte {}: {}", path_, offset, std::strerror(errno));
    if (got == 0)
      fail(ExitCode::data, "{} became shorter while it was read: it ends at byte {}", path_, offset);
    offset += got;
    auto left = static_cast<std::size_t>(got);
    for (; part != end && left >= part->iov_len; ++part) left -= part->iov_len;
    if (part != end) {
      part->iov_base = static_cast<std::uint8_t*>(part->iov_base) + left;
      part->iov_len -= left;
    }
  }
}

}  // namespace lockstep
