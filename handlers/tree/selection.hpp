// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/into.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "formats/internal/index.hpp"

namespace cairn::detail {

/// An entry of an index that is to be loaded.
struct Selected {
  formats::IndexEntry entry;
  const AbstractTree* wanted = nullptr;  ///< Null: as stored.
  bool is_placed = false;                ///< It has memory in an object, and is in no tree.
  bool is_named = false;                 ///< As stored, and asked for by its own path.
};

/// Holds what a load takes, in the order of paths.
struct Selection {
  std::vector<Selected> entries;
  std::deque<std::string> paths;  ///< Of entries that the index does not have.
};

/// The names of `aliases` (TreeLoadOptions) that the index does not have, each with the name that it has of the same
/// array.
[[nodiscard]] std::map<std::string, std::string, std::less<>> names_elsewhere(
    const formats::Index& index, const std::map<std::string, std::string>& aliases);

/// The index under the names that a load gives to what is stored (TreeLoadOptions::rename and separator). `unused` gets
/// a sentence for each pattern that matches nothing.
///
/// Errors: as Renames::Use; Errc::invalid_argument where a path would be both a leaf and a map.
[[nodiscard]] formats::Index renamed_index(formats::Index index, const TreeLoadOptions& options,
                                           std::vector<std::string>& unused);

/// Every entry.
///
/// Errors: Errc::structure_mismatch where something of another program's has no place in a tree, unless that may be
///         left out.
[[nodiscard]] Selection select_all(const formats::Index& index, const TreeLoadOptions& options);

/// Refuses what has no place in a tree, naming the first of it, unless it may be left out: what was asked for by its
/// name may not. Paths are below `path`.
///
/// Errors: Errc::structure_mismatch.
void check_left_out(const formats::Index& index, std::string_view path, const TreeLoadOptions& options,
                    bool is_named = false);

/// The entries that `wanted` asks for. `wanted` is materialised, and the result refers to it. An array with several
/// names is asked for by any of them.
///
/// Errors: Errc::structure_mismatch, listing missing and (unless the load is partial) unexpected paths;
///         Errc::type_mismatch, Errc::unsafe_cast and Errc::shape_mismatch, naming the path.
[[nodiscard]] Selection select(const formats::Index& index, const AbstractTree& wanted,
                               const TreeLoadOptions& options);

/// The entries that are parts of an object: all else stays where it is.
[[nodiscard]] Selection select_parts(const formats::Index& index, const std::vector<WantedPart>& parts,
                                     TreeLoadOptions options);

/// As require_some_taken for a tree.
void require_some_taken(const formats::Index& stored, const MemberDifferences& differences);

/// The paths of the leaves that are wanted, or stand for what is below them. `wanted` is materialised.
[[nodiscard]] std::vector<std::string> wanted_paths(const AbstractTree& wanted);

}  // namespace cairn::detail
