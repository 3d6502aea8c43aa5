#include "core/hash.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace lockstep {
namespace {

constexpr std::uint64_t kPrime = 0x100000001B3u;
constexpr std::size_t kLanes = 4;
constexpr std::size_t kGroup = kLanes * sizeof(std::uint64_t);

// One step of a lane. Multiplication only moves information upwards: without the shift, two flips of the top
// bit of two words (the signs of two floats) would cancel.
std::uint64_t step(std::uint64_t state, std::uint64_t word) {
  const std::uint64_t product = (state ^ word) * kPrime;
  return product ^ (product >> 32);
}

std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

std::uint64_t mixed_word(std::int64_t index, std::uint32_t word) {
  return mixed((static_cast<std::uint64_t>(index) + 1) * 0x9E3779B97F4A7C15u + word);
}

}  // namespace

Hash& Hash::add_bytes(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const unsigned char*>(data);
  std::size_t left = bytes;
  if (left >= 2 * kGroup) {
    std::array<std::uint64_t, kLanes> lanes{};
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = step(state_, lane);
    for (; left >= kGroup; left -= kGroup, next += kGroup) {
      std::array<std::uint64_t, kLanes> words;
      std::memcpy(words.data(), next, kGroup);
      for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = step(lanes[lane], words[lane]);
    }
    for (const std::uint64_t lane : lanes) state_ = step(state_, lane);
  }
  for (; left > 0; --left, ++next) state_ = (state_ ^ *next) * kPrime;
  return *this;
}

Hash& Hash::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  return add_bytes(text.data(), text.size());
}

Hash& Hash::add(std::int64_t value) {
  return add_bytes(&value, sizeof value);
}

std::string Hash::hex() const {
  return fmt::format("{:016x}", state_);
}

std::uint64_t checksum_words(const void* data, std::int64_t first, std::int64_t last) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint64_t sum = 0;
  for (std::int64_t i = first; i < last; ++i) {
    std::uint32_t word;
    std::memcpy(&word, bytes + i * 4, 4);
    sum += mixed_word(i, word);
  }
  return sum;
}

std::uint64_t checksum_rest(const void* data, std::int64_t bytes) {
  std::uint64_t sum = mixed(static_cast<std::uint64_t>(bytes));
  const std::int64_t words = bytes / 4, left = bytes % 4;
  if (left > 0) {
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const unsigned char*>(data) + words * 4, static_cast<std::size_t>(left));
    sum += mixed_word(words, word);
  }
  return sum;
}

std::uint64_t checksum(const void* data, std::int64_t bytes) {
  return checksum_words(data, 0, bytes / 4) + checksum_rest(data, bytes);
}

}  // namespace lockstep
