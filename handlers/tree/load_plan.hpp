// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/array_options.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/io/mapped_file.hpp"
#include "cairn/staging/pieces.hpp"

#include "selection.hpp"

namespace cairn::detail {

/// The size of a file of the checkpointable, or nothing when it is not there.
using FileBytes = std::function<std::optional<std::uint64_t>(std::string_view file)>;

/// What a plan asks of its surroundings.
struct LoadSurroundings {
  FileBytes file_bytes;
  std::function<DeviceCopier*(Device)> copier_of;  ///< Who reaches the memory of a device, or null.
  std::function<std::shared_ptr<const io::MappedFile>(std::string_view file)> map_file;
};

/// Where the bytes of files go: into arrays that have memory, but no elements yet.
struct LoadPlan {
  std::map<std::string, std::vector<DestinationPiece>, std::less<>> pieces;  ///< By file.
  /// Makes the tree of those arrays, while they are filled or afterwards; is called once.
  ///
  /// Errors: Errc::malformed_metadata when the paths make no tree.
  std::function<Tree()> assemble;
};

/// Plans a load of what `wanted` asks for, or of everything when it is null.
///
/// Nothing is allocated before it is certain that the files have bytes for it. What is given must outlive the plan.
/// Errors: as select; Errc::unsafe_cast, naming the path; Errc::not_found when a file is missing;
///         Errc::malformed_metadata when the index contradicts itself or the files; Errc::incomplete_shards
///         and Errc::overlapping_shards when slices do not tile their array; Errc::invalid_argument when they
///         shall go to an array on a device and cannot, or when two leaves shall go to the same memory;
///         Errc::shape_mismatch and Errc::dtype_mismatch when that memory is not of the form that is wanted.
[[nodiscard]] LoadPlan plan_load(const formats::Index& index, const AbstractTree* wanted,
                                 const TreeLoadOptions& options, const LoadSurroundings& surroundings);

}  // namespace cairn::detail
