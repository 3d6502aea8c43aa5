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

// A checksum that parts of the data give in any order, so that a device of many threads computes the same
// value. Of the data as 4-byte words in the machine's order, the last one filled up with zeros:
//   mixed(bytes) + sum over i of mixed((i + 1) * 0x9E3779B97F4A7C15 + word i), modulo 2^64,
// mixed being the finaliser of SplitMix64 (G. Steele, D. Lea and C. Flood, 2014). A change of one word always
// shows, any other with probability 1 - 2^-64.
std::uint64_t checksum(const void* data, std::int64_t bytes);
// Its parts: whole words [first, last), and what is not a whole word, mixed(bytes) included.
std::uint64_t checksum_words(const void* data, std::int64_t first, std::int64_t last);
std::uint64_t checksum_rest(const void* data, std::int64_t bytes);

}  // namespace lockstep
