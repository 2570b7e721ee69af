// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "io/internal/file.hpp"

namespace cairn::io {

/// As `read_small_file` of a name, for a file that is open; `path` is for errors only.
[[nodiscard]] std::string read_small_file(const FileHandle& file, const std::filesystem::path& path,
                                          std::size_t max_bytes);

}  // namespace cairn::io
