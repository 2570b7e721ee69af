// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::joint {

/// Values that must be the same on all ranks: what each is, for messages, and what it is here.
using RankValues = std::vector<std::pair<std::string, std::string>>;

/// The values of one rank, for the others.
[[nodiscard]] std::string encode_rank_values(std::uint32_t rank, const RankValues& rank_values);

/// Joins what ranks have encoded: what several say is kept once, with their numbers. Where ranks differ, a few groups
/// are kept, those of the lowest ranks.
[[nodiscard]] std::string merge_rank_values(const std::vector<std::string>& texts);

/// The first value in which ranks differ.
struct Disagreement {
  std::string what;  ///< The first value that is not the same on all.
  std::string text;  ///< "the path: ranks 0 and 1 have 'a', rank 2 has 'b'".
};

/// Nothing when all said the same.
[[nodiscard]] std::optional<Disagreement> difference_in(std::string_view merged);

}  // namespace cairn::joint
