// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace cairn::cli {

/// How people see a path: as it was typed. What a terminal would obey is escaped.
[[nodiscard]] std::string path_text(const std::filesystem::path& path);

/// A text of the library, which shows paths absolute, with them as they were typed: `typed`, and what lies below.
[[nodiscard]] std::string as_typed(std::string text, std::span<const std::filesystem::path> typed);

/// The last component; of a path that ends in "." or "..", the name of the directory that it means.
[[nodiscard]] std::string name_of(const std::filesystem::path& path);

/// The directory above: as it was typed, else absolute.
[[nodiscard]] std::filesystem::path parent_of(const std::filesystem::path& path);

}  // namespace cairn::cli
