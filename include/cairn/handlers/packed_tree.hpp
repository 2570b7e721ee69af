// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "cairn/formats/packed_tree.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn {

/// The file of a state dict (kStateDictId) that has its plain values, as such a tree.
inline constexpr std::string_view kStateDictCommonFile = "common.tree";

/// A small tree as bytes that are read without anything else: for handlers that keep such trees in files of their own.
///
/// Errors: Errc::invalid_argument for arrays on devices and in shards; those of formats::IndexBuilder.
/// Source: docs/format.md, "Packed trees".
[[nodiscard]] std::string pack_tree(const Tree& tree, const formats::PackedForm& form = formats::kPackedTree);

/// The reverse. `name` says in errors what the bytes are.
///
/// Errors: those of formats::PackedTree::open; Errc::malformed_metadata when the entries are not those of a tree.
[[nodiscard]] Tree unpack_tree(std::span<const std::byte> bytes, std::string name,
                               const formats::PackedForm& form = formats::kPackedTree);

}  // namespace cairn
