// A 64-bit hash after FNV-1a (Fowler, Noll, Vo), for options, names, shapes and checksums. Not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

class Hash {
 public:
  // Up to 63 bytes are FNV-1a's; longer runs go as eight-byte words through four interleaved lanes, so that
  // 94 MB take milliseconds. One run of bytes and the same bytes in pieces differ.
  Hash& add_bytes(const void* data, std::size_t bytes);
  Hash& add(std::string_view text);  // its length, then its bytes: ("ab","c") differs from ("a","bc")
  Hash& add(std::int64_t value);
  std::uint64_t value() const { return state_; }
  std::string hex() const;  // 16 digits

 private:
  std::uint64_t state_ = 0xCBF29CE484222325u;
};

}  // namespace lockstep
