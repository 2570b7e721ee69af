// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "cairn/core/find.hpp"
#include "cairn/core/registry.hpp"

namespace cairn::core {

/// Whether nothing has the name `root`, and a directory may be made of it.
[[nodiscard]] bool is_yet_to_be_made(const std::filesystem::path& root);

/// As list_checkpoints; nothing where `root` is missing and the directory above it is there.
[[nodiscard]] std::vector<FoundCheckpoint> list_if_made(const std::filesystem::path& root,
                                                        const ListOptions& options, const Context& context);

/// As cairn::load_latest, with the handlers of `registry`.
[[nodiscard]] std::optional<LoadedLatest> load_latest(const std::filesystem::path& root,
                                                      const Requests& requests,
                                                      const RegistrySnapshot& registry,
                                                      const LoadLatestOptions& options,
                                                      const Context& context);

}  // namespace cairn::core
