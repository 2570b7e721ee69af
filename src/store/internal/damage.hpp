// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <filesystem>

#include "io/internal/syscalls.hpp"

namespace cairn::store {

/// Returns whether a failure to load the checkpoint at `path` is that of the checkpoint itself, so that
/// another one may be loaded in its place. What was asked for in vain is not, nor what would stop any load:
/// what the operating system refuses but for EIO and EUCLEAN.
///
/// Looks at the disk, and blocks, where something was not found: a file of the checkpoint is damage, a name that it
/// does not have is none.
/// Errors: OS errors, when that cannot be told.
[[nodiscard]] bool is_damage(io::Syscalls& syscalls, std::error_code code, const std::filesystem::path& path);

}  // namespace cairn::store
