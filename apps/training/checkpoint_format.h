// The parts of a checkpoint file that writing and reading share.
#pragma once

#include <nlohmann/json.hpp>

#include "apps/training/checkpoint.h"

namespace lockstep::checkpoint_format {

inline constexpr const char* kMagic = "lockstep-checkpoint 1 ";
inline constexpr std::int64_t kFirstLine = 22 + 10 + 1;  // magic, header length, newline
inline constexpr std::int64_t kTrailer = 9 + 16 + 1;     // "checksum ", digits, newline
inline constexpr std::int64_t kAlignment = 64;           // of the first tensor

using Json = nlohmann::ordered_json;

Json to_json(const CheckpointHeader& header);
CheckpointHeader header_from_json(const Json& json);  // throws nlohmann's exceptions

}  // namespace lockstep::checkpoint_format
