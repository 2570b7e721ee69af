// SPDX-License-Identifier: Apache-2.0
#include "coord/internal/some_ranks.hpp"

#include "base/internal/packed.hpp"

namespace cairn::coord {

void put_ranks(std::string& text, const SomeRanks& ranks) {
  put(text, ranks.count);
  put(text, static_cast<std::uint8_t>(ranks.lowest.size()));
  for (const std::uint32_t rank : ranks.lowest) {
    put(text, rank);
  }
}

SomeRanks take_ranks(std::string_view& text) {
  SomeRanks ranks;
  ranks.count = take<std::uint64_t>(text);
  for (auto left = take<std::uint8_t>(text); left > 0; --left) {
    ranks.lowest.push_back(take<std::uint32_t>(text));
  }
  return ranks;
}

}  // namespace cairn::coord
