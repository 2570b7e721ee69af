// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace cairn::testing {

/// The number that the checkpoint at `path` has as its custom metadata, read past any context; nothing when nothing
/// is there.
///
/// Errors: those of a checkpoint that is damaged, or whose metadata is not a number.
[[nodiscard]] std::optional<std::uint64_t> holder_of(const std::filesystem::path& path);

}  // namespace cairn::testing
