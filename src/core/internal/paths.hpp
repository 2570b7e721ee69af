// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace cairn::core {

/// A path as seen from the current directory of this moment, which a program may change later. Its text is not
/// changed: what "..", links and slashes mean is for the kernel to say.
///
/// Errors: Errc::invalid_argument as io::require_path; OS errors when the current directory is gone.
[[nodiscard]] std::filesystem::path absolute_path(const std::filesystem::path& path);

}  // namespace cairn::core
