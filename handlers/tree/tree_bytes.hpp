// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "cairn/handlers/tree.hpp"

namespace cairn::detail {

/// A tree as bytes: the size of an index (u64), the index, zeros up to a multiple of 8, then the elements of its
/// arrays, each from a multiple of 8 on.
///
/// Errors: Errc::invalid_argument for arrays on devices and in shards; those of IndexBuilder.
/// Source: docs/format.md, "Values of each rank".
[[nodiscard]] std::string encode_tree(const Tree& tree);

/// The reverse.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] Tree decode_tree(std::span<const std::byte> bytes);

}  // namespace cairn::detail
