// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "io/internal/file.hpp"

namespace cairn::training {

/// Opens a directory of a root that Cairn keeps for itself, and makes it first where there is none. Its name is durable
/// when this returns.
///
/// Errors: OS errors: ELOOP or ENOTDIR where something else has the name.
[[nodiscard]] io::Directory open_own_directory(const io::Directory& root, std::string_view name);

}  // namespace cairn::training
