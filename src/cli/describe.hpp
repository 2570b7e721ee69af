// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "cairn/core/load.hpp"

#include "cli/output.hpp"
#include "cli/statistics.hpp"

namespace cairn::cli {

/// Describes the checkpoint, checkpointable or foreign file at `path`; with a name, only that checkpointable.
///
/// Errors: as checkpointables_metadata.
[[nodiscard]] CheckpointMetadata describe(const std::filesystem::path& path, const std::string& name = {});

/// The bytes of all checkpointables.
[[nodiscard]] std::uint64_t total_bytes(const CheckpointMetadata& metadata);

/// The exit status of a command that has shown `metadata`: 1, with a line on standard error, when something of it is
/// damaged. A checkpointable whose handler the tool lacks is not.
[[nodiscard]] int judge(const CheckpointMetadata& metadata, Output& out);

/// Returns whether Cairn did not write it as a checkpoint: files of other programs, and single data files of
/// its own.
[[nodiscard]] bool is_foreign(const CheckpointMetadata& metadata);

/// The path of an array as people know it. Of foreign files it is the tensor's name, which a load takes as one key
/// with escapes; of a data file of Cairn that is the path in its checkpoint.
[[nodiscard]] std::string shown_path(std::string_view path, bool is_foreign);

/// Returns what people call an array or a value: its path, or the name of the checkpointable where it is all
/// there is.
[[nodiscard]] std::string part_title(std::string_view checkpointable, std::string_view path);

/// How many bytes an array has, or of which one it is another name.
[[nodiscard]] std::string size_or_alias_text(const ArrayEntry& array, bool is_foreign);

/// A value as people read it; empty when its kind says all.
[[nodiscard]] std::string value_text(const DescribedValue& value);

/// Returns what keeps a checkpointable from being described; empty when nothing does but that the tool lacks
/// its handler, whose files are then shown.
[[nodiscard]] std::string problem_text(const ItemMetadata& item);

/// Says whether arrays that are divided are written with each of their parts, which may be many.
enum class Parts : std::uint8_t { counted, shown };

/// Writes the key "arrays" with the list of those of `item`; with what they hold, when `statistics` are as many.
void write_arrays(JsonWriter& json, const ItemMetadata& item, const ArrayEntries& arrays, bool is_foreign,
                  Parts parts, std::span<const Statistics> statistics = {});

/// Writes the path, as it was typed, and what the checkpoint there says of itself: its uuid and times.
void write_origin(JsonWriter& json, const std::filesystem::path& path, const CheckpointMetadata& metadata);

/// The same for people, as lines; of a data file it tells whose it is.
void print_origin(Output& out, const std::filesystem::path& path, const CheckpointMetadata& metadata);

}  // namespace cairn::cli
