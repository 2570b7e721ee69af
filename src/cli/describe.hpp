// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/core/load.hpp"
#include "cairn/handlers/renames.hpp"
#include "cairn/tools/array_reader.hpp"

#include "cli/output.hpp"
#include "cli/report.hpp"
#include "tools/internal/text.hpp"

namespace cairn::cli {

/// Describes the checkpoint, checkpointable or foreign file at `path`; with a name, only that checkpointable. Files of
/// other programs are read by this layout, or by the one that recognises them.
///
/// Errors: as checkpointables_metadata.
[[nodiscard]] CheckpointMetadata describe(const std::filesystem::path& path, const std::string& layout,
                                          const std::string& name = {});

/// The same, and looks at each file without reading it: of a checkpointable that lacks one, or has one of another size,
/// that is the problem.
[[nodiscard]] CheckpointMetadata describe_with_files(const std::filesystem::path& path,
                                                     const std::string& layout, const std::string& name = {});

/// Returns what --rename and --strip ask for; each rename has a '='.
[[nodiscard]] Renames renames_of(const std::vector<std::string>& renames,
                                 const std::vector<std::string>& strips);

/// The bytes of all checkpointables.
[[nodiscard]] std::uint64_t total_bytes(const CheckpointMetadata& metadata);

/// The exit status of a command that has shown `metadata`: 1, with a line on standard error, when something of it is
/// damaged. A checkpointable whose handler the tool lacks is not.
[[nodiscard]] int judge(const CheckpointMetadata& metadata, Output& out);

/// Returns whether Cairn did not write it as a checkpoint: files of other programs, and single data files of
/// its own.
[[nodiscard]] bool is_foreign(const CheckpointMetadata& metadata);

using tools::dtype_text;
using tools::notes_of;
using tools::problem_text;
using tools::shown_path;
using tools::value_text;

/// Returns what people call an array or a value: its path, or the name of the checkpointable where it is all
/// there is.
[[nodiscard]] std::string part_title(std::string_view checkpointable, std::string_view path);

/// How many bytes an array has, or of which one it is another name.
[[nodiscard]] std::string size_or_alias_text(const ArrayEntry& array, bool is_foreign);

/// Says whether arrays that are divided are written with each of their parts, which may be many.
enum class Parts : std::uint8_t { counted, shown };

/// Writes an array of `item` as an object; with what it holds, when there are `statistics`.
void write_array(JsonWriter& json, const ItemMetadata& item, const ArrayEntry& array, bool is_foreign,
                 Parts parts, const ArrayStatistics* statistics = nullptr);

/// Adds the path, as it was typed, and what the checkpoint there says of itself: its uuid and times. Of a data file it
/// tells whose it is.
void add_origin(Report& report, const std::filesystem::path& path, const CheckpointMetadata& metadata);

/// Returns whether there are objects of another program, whose kind is not known before they are read.
[[nodiscard]] bool has_objects(const Description& description);

/// Writes the key "notes" with what a load tells of files of other programs; nothing where there is nothing to tell.
void write_notes(JsonWriter& json, const std::vector<std::string>& notes);

/// The same for people, a line each.
void print_notes(Output& out, const std::vector<std::string>& notes, std::string_view indent = "");

}  // namespace cairn::cli
