// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/base/hash.hpp"

namespace cairn {

/// Names a group of ranks in messages. It is as short for many members as for few.
struct RankGroup {
  std::uint32_t lowest = 0;
  Hash128 members;  ///< Of their numbers.

  bool operator==(const RankGroup&) const = default;
};

/// Returns the name of the group of these ranks, which come in any order.
[[nodiscard]] RankGroup group_of(std::span<const std::uint32_t> ranks);

/// The same for the group that `rank` says it is in; nothing where it says none, which means all ranks.
///
/// Errors: Errc::invalid_argument when the rank is not among them.
[[nodiscard]] std::optional<RankGroup> own_group(std::uint32_t rank, std::span<const std::uint32_t> ranks);

/// Numbers the groups that all ranks of a job have named. Returns the number of each rank's group, or nothing where
/// all are in one.
///
/// Errors: Errc::invalid_argument when groups contradict each other: names the ranks.
[[nodiscard]] std::vector<std::uint32_t> number_groups(std::span<const std::optional<RankGroup>> by_rank);

/// Appends a group to a message: whether there is one u8, the lowest rank u32, the hash.
void put_group(std::string& text, const std::optional<RankGroup>& group);
/// Takes what `put_group` has appended.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::optional<RankGroup> take_group(std::string_view& text);

}  // namespace cairn
