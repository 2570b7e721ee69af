// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cairn/formats/foreign_catalogue.hpp"
#include "cairn/store/reports.hpp"

namespace cairn::tools {

/// What was found in files of other programs.
struct ForeignVerification {
  std::string layout;                 ///< By which they were read.
  store::VerifyReport report;         ///< `bytes` were compared with sums.
  std::uint64_t members = 0;          ///< Of archives, that have these sums.
  std::uint64_t unchecked_bytes = 0;  ///< That have none.
  std::vector<std::string> notes;     ///< What a load leaves out or tells of the files.
  /// Files that a load reads, and that nothing has a sum of: those that describe the others.
  std::vector<std::string> unchecked_files;
};

/// Compares the files of another program at `path` with the sums that they have, and with themselves; a folder of
/// Megatron-Core's also with the list of hashes in its integrity.json, where it has one. `layout`: as
/// ArrayReaderOptions::layout. `done_bytes` counts what was compared. Blocks.
///
/// Errors: Errc::not_found when no layout recognises them; those of array_store::verify_files.
[[nodiscard]] ForeignVerification verify_foreign(
    const std::filesystem::path& path, const std::string& layout, std::size_t threads,
    const std::shared_ptr<std::atomic<std::uint64_t>>& done_bytes);

}  // namespace cairn::tools
