// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <filesystem>

namespace cairn::io {
class Syscalls;
}

namespace cairn::api {

/// Whether a load of the checkpoint at `path` has failed because of the checkpoint itself: another one may be loaded. Of what was asked for
/// in vain it has not, nor of what would stop any load. May ask the disk.
///
/// Errors: what the operating system says when it cannot be told.
[[nodiscard]] bool is_damage(std::error_code code, io::Syscalls& syscalls, const std::filesystem::path& path);

}  // namespace cairn::api
