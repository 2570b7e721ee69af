// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "cairn/core/load.hpp"

#include "cli/output.hpp"
#include "tools/internal/checkpoint_view.hpp"

namespace cairn::cli {

/// Prints the texts of a checkpointable, JSON one member a line, behind `indent`: `most_lines` of each at most, and
/// says so when there are more. What a terminal would obey is escaped.
///
/// Errors: as tools::CheckpointView::read.
void print_documents(Output& out, const tools::CheckpointView& checkpoint, const std::string& item,
                     const Description& description, std::string_view indent, std::size_t most_lines);

/// Writes the key "documents" with an object: the JSON texts by the names of their files as they are, others as
/// strings. Nothing when there are none.
///
/// Errors: as tools::CheckpointView::read.
void write_documents(JsonWriter& json, const tools::CheckpointView& checkpoint, const std::string& item,
                     const Description& description);

}  // namespace cairn::cli
