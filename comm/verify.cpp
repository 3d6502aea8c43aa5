#include "comm/verify.h"

#include <algorithm>
#include <cstdint>

#include "core/hash.h"

namespace lockstep {
namespace {

// A text that survives any content: each part is preceded by its length.
std::string encode(const Items& items) {
  std::string text;
  for (const auto& [key, value] : items) {
    for (const std::string& part : {key, value}) {
      text += std::to_string(part.size());
      text += ':';
      text += part;
    }
  }
  return text;
}

Items decode(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t colon = text.find(':', at);
    const std::size_t length = std::stoul(text.substr(at, colon - at));
    parts.push_back(text.substr(colon + 1, length));
    at = colon + 1 + length;
  }
  Items items;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) items.emplace_back(parts[i], parts[i + 1]);
  return items;
}

// One sentence for the first item that differs: in its value, in its name, or in being there at all.
std::string first_difference(const std::string& what, const Items& ours, const Items& theirs, int rank) {
  const std::size_t common = std::min(ours.size(), theirs.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (ours[i].first != theirs[i].first) {
      return fmt::format("{} {} is '{}' on rank 0 but '{}' on rank {}", what, i, ours[i].first,
                         theirs[i].first, rank);
    }
    if (ours[i].second != theirs[i].second) {
      return fmt::format("{} {} is '{}' on rank 0 but '{}' on rank {}", what, ours[i].first, ours[i].second,
                         theirs[i].second, rank);
    }
  }
  const bool ours_longer = ours.size() > theirs.size();
  return fmt::format("{} {} is there on rank {} only, not on rank {}", what,
                     (ours_longer ? ours : theirs)[common].first, ours_longer ? 0 : rank,
                     ours_longer ? rank : 0);
}

}  // namespace

void verify_equal(Communicator& communicator, const std::string& what, const Items& items) {
  const std::string text = encode(items);
  const std::uint64_t hash = Hash().add(text).value();
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather_host(&hash, sizeof hash, hashes.data(), "verification of " + what + "s");
  const auto differing =
      std::find_if(hashes.begin(), hashes.end(), [&](std::uint64_t h) { return h != hashes[0]; });
  if (differing == hashes.end()) return;

  // All ranks see the same hashes, so all of them come here and say the same.
  const std::vector<std::string> texts = all_gather_text(communicator, text);
  const auto rank = static_cast<std::size_t>(differing - hashes.begin());
  throw AgreedError(
      ExitCode::peer,
      fmt::format("the ranks do not run the same training: {}. Start every rank with the same {}s.",
                  first_difference(what, decode(texts[0]), decode(texts[rank]), static_cast<int>(rank)),
                  what));
}

void agree_on_error(Communicator& communicator, ExitCode code, const std::string& message) {
  const auto mine = static_cast<std::int32_t>(code);
  std::vector<std::int32_t> codes(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather_host(&mine, sizeof mine, codes.data(), "agreement on errors");
  const auto failed = std::find_if(codes.begin(), codes.end(), [](std::int32_t c) { return c != 0; });
  if (failed == codes.end()) return;

  const std::vector<std::string> messages = all_gather_text(communicator, message);
  const auto rank = static_cast<std::size_t>(failed - codes.begin());
  const std::string where = communicator.size() == 1 ? "" : fmt::format("on rank {}: ", rank);
  throw AgreedError(static_cast<ExitCode>(*failed), where + messages[rank]);
}

}  // namespace lockstep
