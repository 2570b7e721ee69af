// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/hash.hpp"
#include "cairn/base/some_ranks.hpp"
#include "cairn/coord/session.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/dict_functions.hpp"

namespace cairn::megatron::detail {

/// A leaf of common state, for comparisons between ranks.
struct HashedLeaf {
  std::string path;
  Hash128 hash;
};

/// The leaves, lists and empty maps of a tree, in the order of their paths. Of arrays on devices only dtype and shape
/// count.
[[nodiscard]] std::vector<HashedLeaf> hashed_leaves(const Tree& common);

/// One hash of all of them.
[[nodiscard]] Hash128 hash_of(std::span<const HashedLeaf> leaves);

/// Two ranks differ here; both are as hashed_leaves returns them.
[[nodiscard]] Differences compare(std::span<const HashedLeaf> left, std::span<const HashedLeaf> right);

/// Says in few words where ranks differ from rank 0, which is on the left; the same for ranks that differ alike. Names
/// at most 20 paths of each kind.
[[nodiscard]] std::string summary_of(const Differences& from_rank_0);

/// "common state of rank 3 differs from rank 0's: only on rank 0: 'a/b'; only on rank 3: -; other values: 'lr'".
///
/// Errors: Errc::malformed_metadata when `summary` is not one.
[[nodiscard]] std::string text_of(std::string_view summary, const SomeRanks& ranks);

/// Names the differences between common states, of which each rank has hashes. All ranks get the same words; none where
/// there are no differences.
[[nodiscard]] Awaitable<std::string> name_common_differences(coord::Channel& ranks,
                                                             std::vector<HashedLeaf> mine);

}  // namespace cairn::megatron::detail
