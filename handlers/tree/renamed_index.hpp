// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cairn/handlers/tree_handler.hpp"

#include "formats/internal/index.hpp"

namespace cairn::detail {

/// The index under the names that a load gives to what is stored (TreeLoadOptions::rename and separator). `unused` gets
/// a sentence for each pattern that matches nothing.
///
/// Errors: as Renames::apply; Errc::invalid_argument where a path would be both a leaf and a map.
[[nodiscard]] formats::Index renamed_index(formats::Index index, const TreeLoadOptions& options,
                                           std::vector<std::string>& unused);

}  // namespace cairn::detail
