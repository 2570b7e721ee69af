// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/some_ranks.hpp"
#include "cairn/coord/session.hpp"

namespace cairn::coord {

/// Where ranks have other values than rank 0.
struct Differences {
  /// By the number of the value: who has another one. Only the first few values.
  std::map<std::uint64_t, SomeRanks> by_value;
  bool has_more = false;  ///< Further values differ.
};

/// Compares hashes of values with those of rank 0. Every rank has as many, in the same order; 0 is the same as
/// anything. All ranks get the same answer.
///
/// Takes three rounds: 8 bytes a value go down from rank 0, and few bytes up and down, however many ranks and
/// differences there are.
/// Errors: as Channel::reduce; Errc::malformed_metadata.
[[nodiscard]] Awaitable<Differences> find_differences(Channel& channel, std::vector<std::uint64_t> hashes);

}  // namespace cairn::coord
