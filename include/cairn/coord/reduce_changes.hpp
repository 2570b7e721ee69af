// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/hash.hpp"
#include "cairn/coord/session.hpp"

namespace cairn::coord {

/// A rank's memory of what all ranks have said about something, so that it need not be said again.
struct SaidBefore {
  Hash128 mine;  ///< The hash of what this rank said.
  Hash128 all;   ///< The hash of what all ranks said, merged.

  bool operator==(const SaidBefore&) const = default;
};

/// The result of reduce_changes.
struct Reduced {
  bool is_known = false;  ///< No rank has said anything new: rank 0 has it from the time before.
  SaidBefore said;        ///< To remember.
  std::string all;        ///< At rank 0, when it is not known: what all ranks said, merged.
  bool is_alike = true;   ///< All ranks gave the same `aside`.
};

/// As Channel::reduce, for what ranks say again and again and seldom change: as long as each rank says what it said
/// `before`, 34 bytes go up and 18 down. Where a rank has nothing to remember, or something new to say, all texts are
/// sent.
///
/// Takes two rounds, and two more where only some ranks have something new. Which of them may differ from rank to
/// rank; so may what they remember.
///
/// `aside` is the hash of what may be new every time, and is not to be told, but should be the same on all ranks:
/// whether it is, all learn. By default nothing.
/// Errors: as Channel::reduce; Errc::malformed_metadata.
[[nodiscard]] Awaitable<Reduced> reduce_changes(Channel& channel, std::string mine, Channel::Merge merge,
                                                std::optional<SaidBefore> before, Hash128 aside);
[[nodiscard]] Awaitable<Reduced> reduce_changes(Channel& channel, std::string mine, Channel::Merge merge,
                                                std::optional<SaidBefore> before);

}  // namespace cairn::coord
