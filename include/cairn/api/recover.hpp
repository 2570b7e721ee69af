// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/core/maintenance.hpp"

namespace cairn {

/// Cleans a directory of checkpoints after a crash, with the default context; see cairn/core/maintenance.hpp.
store::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options = {});

}  // namespace cairn
