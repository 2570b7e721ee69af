// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cairn/array/array.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/contract/load_context.hpp"
#include "cairn/contract/save_context.hpp"

namespace cairn {

// For handlers whose values hold arrays in a container of their own: the handler of trees stores arrays in this way,
// too. RankArrays (handlers/rank_arrays.hpp) is for those of which several ranks hold parts.
//
// Example: tests/handlers/array_map.hpp is a whole handler.

/// Arrays by their paths: keys joined by '/', see formats::append_key.
using ArraysByPath = std::map<std::string, Array, std::less<>>;
using AbstractArraysByPath = std::map<std::string, AbstractArray, std::less<>>;

/// Writes arrays as safetensors files and an index, as the options of the save ask for: ArrayOptions, ArrayRules.
///
/// Phase:     as SaveContext::write_pieces.
/// Ownership: as SaveContext::snapshot says of the elements; the map is not kept.
/// Errors:    Errc::invalid_argument, naming the path, when it is none, when Snapshot::share finds no owner, or the
///            array is on a device that nobody reaches; Errc::unsafe_cast when values would be lost; as
///            SaveContext::write_pieces.
[[nodiscard]] Awaitable<Background<>> write_arrays(SaveContext context, const ArraysByPath& arrays);

/// Reads arrays that write_arrays, RankArrays or a handler of trees has written: those that are wanted, in the dtypes
/// and memory that are wanted; nothing: all, as they are stored. What is wanted and not there is left out.
///
/// Ownership: memory that is wanted stays valid until the task has finished.
/// Errors:    Errc::unsafe_cast and Errc::shape_mismatch, naming the path; Errc::not_found when a file is missing;
///            Errc::malformed_metadata; as LoadContext::read_files.
[[nodiscard]] Background<ArraysByPath> read_arrays(LoadContext context,
                                                   std::optional<AbstractArraysByPath> wanted = std::nullopt);

/// Reads which arrays there are, without their elements.
///
/// Errors: Errc::not_found when there is no index; Errc::malformed_metadata.
[[nodiscard]] Awaitable<AbstractArraysByPath> read_array_forms(LoadContext context);

}  // namespace cairn
