// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/core/save.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn {

/// Saves checkpointables as one checkpoint at `path`. Returns when it is durable.
///
/// A missing parent is made; more levels only when SaveOptions::create_parents says so.
/// After any crash a reader sees the whole old checkpoint or the whole new one; see docs/reliability.md.
/// Ownership: the values must live until the call returns.
/// Threads:   safe; not from one of the context's own threads.
/// Errors:    see docs/errors.md; nothing is left behind, and what was at `path` before is still there.
///            Errc::commit_unknown alone says that the new one may be there or not; the old one is not removed then.
/// Example:   save_checkpointables("run/7", {{"model", tree}, {"config", json}});
SaveResult save_checkpointables(const std::filesystem::path& path, const Checkpointables& items,
                                const SaveOptions& options = {}, const Context& context = default_context());
SaveResult save_checkpointables(const std::filesystem::path& path, const Checkpointables& items,
                                const Context& context);

/// As above, but returns as soon as the values may change (`staged`), and writes in the background.
///
/// Ownership: the values must live until the call returns; until `committed` with Snapshot::borrow.
/// Errors:    what the blocking phase finds is thrown; what comes later, by the response.
[[nodiscard]] AsyncResponse save_checkpointables_async(const std::filesystem::path& path,
                                                       const Checkpointables& items,
                                                       const SaveOptions& options = {},
                                                       const Context& context = default_context());
[[nodiscard]] AsyncResponse save_checkpointables_async(const std::filesystem::path& path,
                                                       const Checkpointables& items, const Context& context);

/// The common case: one tree, as the checkpointable `state`.
SaveResult save(const std::filesystem::path& path, const Tree& state, const SaveOptions& options = {},
                const Context& context = default_context());
[[nodiscard]] AsyncResponse save_async(const std::filesystem::path& path, const Tree& state,
                                       const SaveOptions& options = {},
                                       const Context& context = default_context());
/// The tree is moved into the save; arrays that it only borrows stay the caller's.
[[nodiscard]] AsyncResponse save_async(const std::filesystem::path& path, Tree&& state,
                                       const SaveOptions& options = {},
                                       const Context& context = default_context());

}  // namespace cairn
