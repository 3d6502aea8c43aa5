#include "comm/communicator.h"

#include <algorithm>

namespace lockstep {

std::vector<std::string> all_gather_text(Communicator& communicator, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(ranks);
  communicator.all_gather_host(&length, sizeof length, lengths.data(), "lengths of texts");

  // Every rank sends as much as the longest text needs: start-up only, so simple beats small.
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  if (longest == 0) return std::vector<std::string>(ranks);
  std::string padded = text;
  padded.resize(longest);
  std::string all(longest * ranks, '\0');
  communicator.all_gather_host(padded.data(), static_cast<std::int64_t>(longest), all.data(), "texts");

  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    texts.push_back(all.substr(rank * longest, static_cast<std::size_t>(lengths[rank])));
  }
  return texts;
}

}  // namespace lockstep
