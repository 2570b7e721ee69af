// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "formats/internal/index.hpp"
#include "formats/internal/index_builder.hpp"

namespace cairn::formats {

/// Makes one index of those that several ranks have written of their parts of one checkpointable, in messages or in
/// files.
///
/// An array has the slices of all, in the order of their offsets; whether they tile it is not looked at. Everything
/// else comes from the first index that has it, and aliases stay. Merging may be done in steps, some at a time: the
/// result is the same.
/// Time:   n log k for n slices of k indexes whose slices are in order.
/// Errors: naming the entry and the path() of the index that differs from the first. Errc::shape_mismatch and
///         Errc::dtype_mismatch for arrays that differ; Errc::type_mismatch for an array or alias that is something
///         else there; Errc::malformed_metadata when an index is damaged; those of IndexBuilder::finish.
[[nodiscard]] IndexBytes merge_indexes(std::span<const Index> indexes);

/// Adds an entry of `from` that is not an array as it is there.
///
/// Errors: as IndexBuilder's; Errc::malformed_metadata when `from` is damaged; Errc::invalid_argument for an array.
void copy_value(IndexBuilder& to, const Index& from, const IndexEntry& entry);

}  // namespace cairn::formats
