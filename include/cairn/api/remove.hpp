// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/core/remove.hpp"

namespace cairn {

/// Removes the checkpoint at `path` for good, with the default context or another; see cairn/core/remove.hpp.
///
/// Example: save("run/200", state);
///          remove_checkpoint("run/100");
store::RemovalReport remove_checkpoint(const std::filesystem::path& path,
                                       const Context& context = default_context());
store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options);

}  // namespace cairn
