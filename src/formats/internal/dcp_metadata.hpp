// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/formats/foreign_catalogue.hpp"

#include "formats/internal/foreign_index.hpp"

namespace cairn::formats {

/// The path of the object that is the common state of Megatron-Core.
inline constexpr std::string_view kCommonStatePath = "common_state~1shard_0_1";

/// Returns whether a path ends as Megatron-Core ends the names of objects: "/shard_0.1_2.2", place and grid.
[[nodiscard]] bool is_name_of_shard(std::string_view path);

/// The files that describe a distributed checkpoint of torch: `.metadata`, or where each rank wrote its own
/// `__0.metadata`, `__1.metadata` and so on. None among `files`: it is not one.
///
/// Errors: Errc::incomplete_shards, naming the first of the ranks that is missing.
[[nodiscard]] std::vector<std::string> dcp_metadata_files(std::span<const std::string> files);

/// Describes a distributed checkpoint by one of these files: a flat map of names. Slices are not located: each range is
/// an archive of torch.save that holds one tensor, for locate_dcp_slice. Flattened states of Megatron (`mcore_data`)
/// become boxes of the arrays that they are parts of. That the slices tile their arrays is not checked.
///
/// Errors: Errc::malformed_metadata, naming the array; Errc::incomplete_shards when a chunk is in no file.
/// Source: docs/format.md, "Distributed checkpoints of torch".
[[nodiscard]] ForeignCatalogue describe_dcp_metadata(std::span<const std::byte> bytes, std::string_view path);

/// Joins what each rank says of its own part, in the order of ranks. What several ranks have is that of the first.
///
/// Errors: Errc::malformed_metadata when shapes or dtypes of an array differ.
[[nodiscard]] ForeignCatalogue join_dcp_metadata(std::span<const ForeignCatalogue> ranks);

/// Returns where in an archive the elements of the tensor lie of which a slice is a part, or which it is.
///
/// Errors: Errc::malformed_metadata when the archive holds other than one tensor of that dtype, with as many elements,
///         and of that shape where the slice is all of it; or its elements are not one behind the other where it is a
///         part.
[[nodiscard]] const ForeignSlice& tensor_of_chunk(const ForeignCatalogue& chunk, const EncodedSlice& slice);

/// Returns the slice with the place of its elements, and its form as the number of one of `forms`, which grow. `chunk`
/// describes the archive in the slice's range, and `array` is the array that the slice is of.
///
/// Errors: Errc::malformed_metadata when the archive holds other than a tensor of that dtype and shape;
///         Errc::feature_missing, naming the codec, where `catalogue` says that the chunk is encoded.
[[nodiscard]] ForeignSlice locate_dcp_slice(const ForeignArray& array, const ForeignSlice& slice,
                                            const ForeignCatalogue& chunk, ForeignCatalogue& catalogue,
                                            std::string_view path);

}  // namespace cairn::formats
