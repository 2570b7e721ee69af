// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::joint {

/// Things that must be the same on all ranks: what each is, for messages, and what it is here.
using Claims = std::vector<std::pair<std::string, std::string>>;

/// The claims of one rank, for the others. The first one is `what_is_done`: "save", "load".
[[nodiscard]] std::string encode_claims(std::uint32_t rank, std::string_view what_is_done,
                                        const Claims& claims);

/// Joins what ranks have encoded: what several say is kept once, with their numbers. Where ranks differ, a few opinions are kept, those
/// of the lowest ranks.
[[nodiscard]] std::string merge_claims(const std::vector<std::string>& texts);

/// In what ranks differ.
struct ClaimDifference {
  std::string what;  ///< The first claim that is not the same on all.
  std::string text;  ///< "the path: ranks 0 and 1 have 'a', rank 2 has 'b'".
};

/// Nothing when all said the same.
[[nodiscard]] std::optional<ClaimDifference> difference_in(std::string_view merged);

}  // namespace cairn::joint
