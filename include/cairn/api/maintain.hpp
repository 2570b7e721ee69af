// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/core/maintenance.hpp"

namespace cairn {

/// Cleans a directory of checkpoints after a crash, with the default context; see cairn/core/maintenance.hpp.
store::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options = {});
[[nodiscard]] Awaitable<store::RecoveryReport> recover_async(const std::filesystem::path& root,
                                                             const RecoverOptions& options = {});

/// Compares every byte of a checkpoint with what was written, with the default context; see cairn/core/maintenance.hpp.
[[nodiscard]] store::VerifyReport verify(const std::filesystem::path& path,
                                         const VerifyOptions& options = {});

/// Removes the checkpoint at `path` for good, with the default context or another; see cairn/core/maintenance.hpp.
///
/// Example: save("run/200", state);
///          remove_checkpoint("run/100");
store::RemovalReport remove_checkpoint(const std::filesystem::path& path,
                                       const Context& context = default_context());
store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options);

}  // namespace cairn
