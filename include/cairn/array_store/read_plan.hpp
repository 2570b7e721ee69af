// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/abstract_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/array_store/stored_files.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/staging/device_copier.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn::array_store {

/// An array that shall be read.
struct WantedArray {
  formats::IndexEntry entry;  ///< Of kind array.
  const AbstractArray* form =
      nullptr;  ///< The dtype and memory that it shall have; null: as stored, in new memory.
};

struct ReadOptions {
  ReadOptions() = default;

  /// Permit casts that change values for every array; see AbstractArray::allows_narrowing.
  bool allow_narrowing = false;
  /// Make read-only views of the files of all arrays that can be such; see TreeLoadOptions::map.
  bool map = false;
  /// Who reaches the memory of a device, or null; without it arrays for devices are refused.
  std::function<DeviceCopier*(Device)> copier_of;
};

using PiecesByFile = std::map<std::string, std::vector<DestinationPiece>, std::less<>>;

/// Where the bytes of files go, to make arrays of them.
struct ReadPlan {
  PiecesByFile pieces;
  std::vector<Array>
      arrays;  ///< As asked for. They have memory, but no elements before the pieces have been read.
};

/// Plans to read arrays of an index whose slices lie in `files`. Reads nothing itself; it maps files where that is asked
/// for.
///
/// Nothing is allocated before it is certain that the files have bytes for it. What is given is not kept.
/// Shape:  of `form`, if given, is the stored one: the caller sees to it.
/// Errors: Errc::unsafe_cast, naming the path; Errc::not_found when a file is missing;
///         Errc::malformed_metadata when the index contradicts itself or the files; Errc::incomplete_shards
///         and Errc::overlapping_shards when slices do not tile their array; Errc::invalid_argument when they
///         shall go to an array on a device and cannot, or when two arrays shall go to the same memory;
///         Errc::shape_mismatch and Errc::dtype_mismatch when that memory is not of the form that is wanted.
[[nodiscard]] ReadPlan plan_read(const formats::Index& index, std::span<const WantedArray> wanted,
                                 const ReadOptions& options, const StoredFiles& files);

/// Reads all pieces of a plan, all files at once.
[[nodiscard]] Awaitable<> read(std::shared_ptr<const StoredFiles> files, PiecesByFile pieces);

}  // namespace cairn::array_store
