// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cairn::store {

/// Longest encoded name: a file system's component holds 255 bytes, and temporary names need a prefix.
inline constexpr std::size_t kMaxDirectoryBytes = 200;

/// Refuses names that cannot be checkpointables' names.
///
/// Errors: Errc::invalid_argument for an empty name, a NUL, invalid UTF-8, or one whose directory would be
///         longer than `kMaxDirectoryBytes`.
void validate_name(std::string_view name);

/// The directory that belongs to a name: injective, one plain component on any file system, also on those
/// that ignore case or compose Unicode. Lower-case ASCII letters, digits, '-', '_' and inner '.' stand for
/// themselves, every other byte is '%' and two hexadecimal digits.
///
/// Source: docs/format.md, "Names".
[[nodiscard]] std::string directory_of(std::string_view name);

}  // namespace cairn::store
