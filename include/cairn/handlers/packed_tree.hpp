// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "cairn/handlers/tree.hpp"

namespace cairn {

/// A small tree as bytes that are read without anything else: for handlers that keep such trees in files of their own.
///
/// Errors: Errc::invalid_argument for arrays on devices and in shards, and for paths that no index has.
/// Source: docs/format.md, "Packed trees".
[[nodiscard]] std::string pack_tree(const Tree& tree);

/// The reverse. `name` says in errors what the bytes are.
///
/// Errors: Errc::malformed_metadata, also when the entries are not those of a tree; Errc::unsupported_version.
[[nodiscard]] Tree unpack_tree(std::span<const std::byte> bytes, std::string name);

}  // namespace cairn
