// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"
#include "cairn/store/reports.hpp"

namespace cairn::cli {

/// Returns what lies in a directory of checkpoints and is or was Cairn's, in the order of store::ListOptions.
///
/// Errors: those of `store::list_checkpoints`. What is wrong with an entry is its `problem`.
[[nodiscard]] std::vector<store::FoundCheckpoint> find_checkpoints(
    const std::filesystem::path& path, std::optional<store::NumbersInNames> numbers = std::nullopt);

/// Returns two names in the order of runs of digits that are in the other order as decimal numbers, the newest such;
/// nothing where both readings put all names in one order.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> names_in_doubt(
    std::vector<store::FoundCheckpoint> found);

/// A file or folder of another program.
struct ForeignEntry {
  std::string name;
  std::string layout;       ///< That recognises it by names alone.
  std::uint64_t bytes = 0;  ///< Of its files.
};

/// Returns what lies in a directory and is another program's, in the order of names; nothing is opened. None where the
/// directory cannot be listed.
[[nodiscard]] std::vector<ForeignEntry> find_foreign(const std::filesystem::path& path);

/// Returns whether what cannot be described for that reason is a directory that is listed instead: it holds
/// checkpoints, or several archives.
[[nodiscard]] bool may_be_listed(const std::filesystem::path& path, const Error& error);

/// Returns whether a directory without checkpoints may be the root of some: not one that has lost parts of
/// its own.
[[nodiscard]] bool may_be_root(const std::filesystem::path& path);

}  // namespace cairn::cli
