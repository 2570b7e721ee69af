// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/base/hash.hpp"
#include "cairn/contract/load_context.hpp"
#include "cairn/contract/save_context.hpp"
#include "cairn/coord/session.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "array_store/internal/reader.hpp"
#include "array_store/internal/writer.hpp"
#include "formats/internal/index_builder.hpp"

namespace cairn {

class Tree;

// The public calls for arrays (handlers/array_files.hpp, rank_arrays.hpp) use these; so do the handlers of trees and
// state dicts.

/// A writer for the arrays of one checkpointable, as the options of its save ask for.
[[nodiscard]] array_store::Writer array_writer(const SaveContext& context);

/// Adds a leaf of a tree that is not an array to the entries of an index (Writer::entries); of a list its size.
///
/// Errors: as formats::IndexBuilder.
void add_value(formats::IndexBuilder& entries, std::string_view path, const Tree& leaf);

/// Writes what was added: the files of arrays, and the index when their headers have been written.
///
/// Phase:  as SaveContext::write_pieces.
/// Errors: as Writer::lay_out and SaveContext::write_pieces.
[[nodiscard]] Awaitable<Background<>> write_arrays(SaveContext context, array_store::Writer writer);

/// Holds what should be the same on all ranks, and whether it is.
struct SameOnRanks {
  Hash128 hash;          ///< Set in the blocking phase.
  bool is_alike = true;  ///< What the background phase has found.
};

/// The same on each rank of a job, each with its part: the indexes of all become one on their way to rank 0, which
/// writes it. Those that are as they were in the last save are not sent. A few steps of `ranks`, in the background;
/// it has no others after this. With the indexes goes the hash of `same`, if that is given. `values` are further
/// entries that change more often than arrays do, and are sent by themselves: all ranks give them, or none does.
///
/// Errors: also those of formats::merge_indexes, on all ranks.
[[nodiscard]] Awaitable<Background<>> write_arrays(
    SaveContext context, array_store::Writer writer, coord::Channel ranks,
    std::shared_ptr<SameOnRanks> same = nullptr, std::optional<formats::IndexBuilder> values = std::nullopt);

/// The files of a checkpointable, as the context reads them.
[[nodiscard]] std::shared_ptr<const array_store::StoredFiles> stored_files(LoadContext context);

/// Returns what the options of a load ask for.
[[nodiscard]] array_store::ReadOptions array_read_options(LoadContext context);

/// Makes a tree of an object of other programs (EntryKind::unread), as their layout describes it. What has no place in
/// a tree is added to `left_out`, with its path in the object; null: it is an error. `path` names the object in errors.
///
/// Errors: Errc::structure_mismatch, naming what has no place in a tree.
[[nodiscard]] Tree read_object(std::shared_ptr<const array_store::FileLayout> layout,
                               const array_store::StoredObject& object, std::string_view path,
                               std::vector<formats::LeftOut>* left_out = nullptr);

}  // namespace cairn
