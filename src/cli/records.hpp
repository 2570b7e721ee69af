// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "cairn/core/load.hpp"

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/proto.hpp"
#include "store/internal/verify.hpp"
#include "tools/internal/checkpoint_view.hpp"

// Files in the format riegeli/records. Of those that end in `.cpb` the last record says where the others belong in a
// message.
//
// Errors of all but the first: as records::RecordReader and RecordWriter; Errc::feature_missing where the tool was
// built without records.

namespace cairn::cli {

/// Returns whether a file begins as files of records do.
[[nodiscard]] bool is_records_file(const std::filesystem::path& path);

/// `cairn inspect` of such a file: as the commands.
int inspect_records(const Arguments& arguments, Output& out);

/// Reads all records. What is wrong is in the report.
[[nodiscard]] store::VerifyReport verify_records(
    const std::filesystem::path& path, const std::function<void(std::uint64_t done_bytes)>& progress);

/// Writes each record of a file behind its length, which is a u64. Returns how many there are.
/// What `progress` throws stops it; it is asked once more before the target gets its name.
std::uint64_t export_records(const std::filesystem::path& source, const std::filesystem::path& target,
                             const Progress& progress);

/// Writes the chunks of a message, which lie in a file of a checkpoint, as a `.cpb`. `progress`: as above.
void export_chunks(const ItemMetadata& item, const MessageChunks& message, tools::VerifiedFile& file,
                   const std::filesystem::path& target, const Progress& progress);

}  // namespace cairn::cli
