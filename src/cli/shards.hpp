// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "cairn/core/load.hpp"

#include "cli/output.hpp"

namespace cairn::cli {

/// Returns whether an array lies in several parts, or was divided among ranks.
[[nodiscard]] bool is_divided(const ArrayEntry& array);
/// Returns whether some of these arrays are divided.
[[nodiscard]] bool are_divided(const ArrayEntries& arrays);

/// How an array was divided among ranks, in words; "-" when nobody said so. A layout that Cairn does not know is
/// shown as it is stored.
[[nodiscard]] std::string layout_text(const ArrayEntry& array);

/// Which rank wrote a file of a checkpointable; nothing where one process wrote all, or there is no such file.
[[nodiscard]] std::optional<std::uint32_t> writer_of(const ItemMetadata& item, std::string_view file);

/// The rank as people read it; "-" when there is none.
[[nodiscard]] std::string rank_text(std::optional<std::uint32_t> rank);

/// The ranks that wrote the files of a checkpointable, and those that wrote the parts of an array that is divided;
/// none where one process wrote all.
///
/// Errors (and those of write_shards and print_shards): Errc::malformed_metadata when the index is damaged.
[[nodiscard]] std::set<std::uint32_t> writers(const ItemMetadata& item);
[[nodiscard]] std::set<std::uint32_t> writers(const ItemMetadata& item, const ArrayEntry& array);
/// "0-3, 7"; "-" for none.
[[nodiscard]] std::string ranks_text(const std::set<std::uint32_t>& ranks);

/// Writes the key "ranks" with a list of them; nothing when there are none.
void write_ranks(JsonWriter& json, const std::set<std::uint32_t>& ranks);

/// Writes the key "shards" with the parts of an array: where each lies in the array, its file, and who wrote it.
void write_shards(JsonWriter& json, const ItemMetadata& item, const ArrayEntry& array);

/// The same for people, the first of each array, as rows of a table of `SHARD BOX FILE RANK`.
void print_shards(const RowVisitor& row, const ItemMetadata& item, const ArrayEntry& array,
                  const std::string& title);

}  // namespace cairn::cli
