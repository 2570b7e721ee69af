// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/core/maintenance.hpp"

namespace cairn {

/// Compares every byte of a checkpoint with what was written, with the default context; see cairn/core/maintenance.hpp.
[[nodiscard]] store::VerifyReport verify(const std::filesystem::path& path,
                                         const VerifyOptions& options = {});

}  // namespace cairn
