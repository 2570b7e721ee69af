// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/hash.hpp"
#include "cairn/coord/reduce_changes.hpp"
#include "cairn/coord/session.hpp"

#include "megatron/prepare.hpp"
#include "megatron/rank_failure.hpp"

namespace cairn::megatron::detail {

// Ranks tell each other the keys of their tensors and the names of their objects. That is merged on its way to rank 0.

/// Returns what a rank says: what is wrong with its dict, or its keys.
[[nodiscard]] std::string encode_keys(const PreparedDict& prepared, std::uint32_t rank,
                                      const std::optional<RankFailure>& failure = std::nullopt);

/// Joins what several ranks say.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::string merge_keys(const std::vector<std::string>& texts);

/// Checks that what all ranks say fits together. `name` is that of the checkpointable.
///
/// Errors: what is wrong with the dict of a rank. Else naming key and ranks: Errc::overlapping_shards for an object
///         with several main replicas; Errc::incomplete_shards for a grid of which an object has none;
///         Errc::invalid_argument for a key in two roles, or of two grids; Errc::malformed_metadata.
void check_keys(std::string_view all, std::string_view name);

/// Rank 0 checks the keys of all ranks, if they are not those that all have said `before`. `aside` and the result are
/// as in reduce_changes. `name` is that of the checkpointable.
///
/// Errors: on all ranks those of check_keys.
[[nodiscard]] Awaitable<coord::Reduced> agree_on_keys(coord::Channel& ranks, std::string mine,
                                                      std::optional<coord::SaidBefore> before, Hash128 aside,
                                                      std::string name);

}  // namespace cairn::megatron::detail
