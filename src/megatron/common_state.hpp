// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/base/hash.hpp"
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

/// Where two ranks differ; both are as hashed_leaves returns them.
[[nodiscard]] Differences compare(std::span<const HashedLeaf> left, std::span<const HashedLeaf> right);

/// "common state of rank 3 differs from rank 0's: only on rank 0: 'a/b'; only on rank 3: -; other values: 'lr'". Names
/// at most 20 paths of each kind.
[[nodiscard]] std::string text_of(const Differences& from_rank_0, std::uint32_t rank);

}  // namespace cairn::megatron::detail
