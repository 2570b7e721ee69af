// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/base/some_ranks.hpp"

namespace cairn {

/// Ranks that say the same of something, and what. Where they should all say the same, but do not, errors are made of
/// these.
struct ValueGroup {
  SomeRanks ranks;
  std::string_view value;
};

/// Returns what is said once, with all the ranks that say it; those of the lowest ranks first. Of ranks that
/// differ a few groups are kept, so that messages stay short.
[[nodiscard]] std::vector<ValueGroup> merge_value_groups(std::span<const ValueGroup> groups);

/// "ranks 0 and 1 have 'a', rank 2 has 'b'", with what they say as it is.
[[nodiscard]] std::string to_string(std::span<const ValueGroup> groups);

[[nodiscard]] std::string encode_value_groups(std::span<const ValueGroup> groups);
/// Views of `text`.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::vector<ValueGroup> decode_value_groups(std::string_view text);
/// Returns what several have encoded, merged and encoded again.
///
/// Errors: as decode_value_groups.
[[nodiscard]] std::string merge_encoded_value_groups(const std::vector<std::string>& texts);

}  // namespace cairn
