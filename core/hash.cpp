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

}  // namespace lockstep
