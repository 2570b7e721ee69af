// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/base/some_ranks.hpp"

namespace cairn {

/// Ranks that say the same of something, and what. Where they should all say the same, but do not, errors are made of these.
struct Opinion {
  SomeRanks ranks;
  std::string_view says;
};

/// What is said once, with all the ranks that say it; those of the lowest ranks first. Of ranks that differ a few opinions are kept,
/// so that messages stay short.
[[nodiscard]] std::vector<Opinion> merge_opinions(std::span<const Opinion> opinions);

/// "ranks 0 and 1 have 'a', rank 2 has 'b'", with what they say as it is.
[[nodiscard]] std::string to_string(std::span<const Opinion> opinions);

[[nodiscard]] std::string encode_opinions(std::span<const Opinion> opinions);
/// Views of `text`.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::vector<Opinion> decode_opinions(std::string_view text);
/// What several have encoded, merged and encoded again.
///
/// Errors: as decode_opinions.
[[nodiscard]] std::string merge_encoded_opinions(const std::vector<std::string>& texts);

}  // namespace cairn
