// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "cairn/array/dtype.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/sharding/policy.hpp"

namespace cairn::detail {

/// A leaf that is an array, sharded or not, and what makes it another array than one of the same memory.
struct ArrayLeaf {
  std::string path;
  const Tree* leaf = nullptr;
  DType stored{};
  const ShardingPolicy* policy = nullptr;
  bool is_replicated = false;  ///< All ranks share it out.
};

/// The result of comparing leaves that share memory.
struct FoundAliases {
  std::map<std::string, std::string, std::less<>>
      names;            ///< Further names of arrays, each with the first one.
  std::string overlap;  ///< Names two arrays that share memory without being the same; empty where none do.
};

/// Compares leaves that may share memory, in the order of the tree. Two are the same array when all of it is: memory,
/// shape, strides, type and policy, who writes it, and the boxes of sharded ones.
[[nodiscard]] FoundAliases find_aliases(std::span<const ArrayLeaf> leaves);

}  // namespace cairn::detail
