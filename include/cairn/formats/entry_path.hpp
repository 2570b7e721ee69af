// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::formats {

/// The path of a node in a tree, as an index stores it: keys joined by '/', the root's path is empty.
///
/// Inside a key '~' is written "~0" and '/' is written "~1"; a key without characters is written "~2". So every
/// sequence of keys has one path and every path one sequence of keys. Elements of lists have decimal keys.
/// Source: docs/format.md, "Names".

/// Appends `key` to `path`, which is the path of its parent.
void append_key(std::string& path, std::string_view key);

/// Whether append_key could have made `path` from valid UTF-8 keys.
[[nodiscard]] bool is_entry_path(std::string_view path) noexcept;

/// The keys of a path, outermost first; none for the root.
///
/// Errors: Errc::malformed_metadata when is_entry_path() is false.
[[nodiscard]] std::vector<std::string> split_path(std::string_view path);

/// How messages show a path: in quotes, the root in words.
[[nodiscard]] std::string shown(std::string_view path);

}  // namespace cairn::formats
