// The parts of a checkpoint file that writing and reading share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/training/checkpoint.h"

namespace lockstep::checkpoint_format {

inline constexpr const char* kMagic = "lockstep-checkpoint 1 ";
inline constexpr std::int64_t kFirstLine = 22 + 10 + 1;  // magic, header length, newline
inline constexpr std::int64_t kTrailer = 9 + 16 + 1;     // "checksum ", digits, newline
inline constexpr std::int64_t kAlignment = 64;           // of the first tensor

struct Contents {
  CheckpointHeader header;
  std::vector<CheckpointEntry> entries;
};

// As JSON, without what pads it. A path in the configuration may hold bytes that are not UTF-8; they are
// replaced, not refused.
std::string to_text(const Contents& contents);
// A std::exception that says what is wrong with the text.
Contents from_text(std::string_view text);

}  // namespace lockstep::checkpoint_format
