// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/hash.hpp"
#include "cairn/base/some_ranks.hpp"
#include "cairn/coord/reduce_changes.hpp"
#include "cairn/coord/session.hpp"

#include "megatron/prepare.hpp"

namespace cairn::megatron::detail {

// Ranks tell each other the keys of their tensors and the names of their objects, or what has gone wrong on them
// before. That is merged on its way to rank 0.

/// Returns what a rank says.
[[nodiscard]] std::string encode_keys(const PreparedDict& prepared, std::uint32_t rank);

/// Returns what a rank says that does not come so far.
[[nodiscard]] std::string encode_keys(const Error& fault, std::uint32_t rank);

/// A fault as a text, of which fault_of makes what all ranks are told: "ranks 1 and 3: …".
[[nodiscard]] std::string encode_fault(const Error& fault);
[[nodiscard]] Error fault_of(std::string_view encoded, const SomeRanks& ranks);

/// Joins what several ranks say.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::string merge_keys(const std::vector<std::string>& texts);

/// Checks that what all ranks say fits together.
///
/// Errors: naming key and ranks. A rank's fault; Errc::overlapping_shards for an object with several main replicas;
///         Errc::incomplete_shards for a grid of which an object has none; Errc::invalid_argument for a key in two
///         roles, or of two grids; Errc::malformed_metadata.
void check_keys(std::string_view all);

/// Rank 0 checks the keys of all ranks, if they are not those that all have said `before`. `aside` and the result are
/// as in reduce_changes. `name` is that of the checkpointable.
///
/// Errors: on all ranks those of check_keys.
[[nodiscard]] Awaitable<coord::Reduced> agree_on_keys(coord::Channel& ranks, std::string mine,
                                                      std::optional<coord::SaidBefore> before, Hash128 aside,
                                                      std::string name);

}  // namespace cairn::megatron::detail
