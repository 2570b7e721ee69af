// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cairn/array_store/reader.hpp"

#include "array/internal/cast.hpp"

namespace cairn::array_store {

// The steps of plan_read, in their order. Each takes values and returns values: what is stored and wanted becomes regions of
// files, those are checked, get memory, and become pieces.

/// Of arrays that share memory with their neighbours in the file.
inline constexpr std::uint64_t kMostSmallBytes = 64 << 10;

/// An array that is read: what is stored, and what becomes of it.
struct ReadArray {
  formats::IndexArray stored;
  DType dtype{};
  Narrowing narrowing = Narrowing::refused;
  const Array* destination = nullptr;  ///< Null: it gets memory of its own.
  DeviceCopier* copier = nullptr;      ///< Of the device that it goes to; null: the host's memory.
  bool is_plain = false;               ///< Its bytes in the file are its bytes in memory.
  bool is_small = false;               ///< It is plain, and not worth memory of its own.
};

/// The bytes of a slice in a file.
struct Region {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t array = 0;  ///< Which of the arrays that are read.
  std::uint32_t slice = 0;
};

using Regions = std::vector<Region>;
using RegionsByFile = std::map<std::string, Regions, std::less<>>;

/// What a read takes from where.
struct LocatedArrays {
  std::vector<ReadArray> arrays;  ///< As they were asked for.
  RegionsByFile regions;
};

/// Finds the bytes of arrays, and checks that they can go where they shall, that no two go to one place, and that slices tile
/// their array. The result refers to all that is given.
///
/// Errors: as plan_read, for what the files need not be known for.
[[nodiscard]] LocatedArrays locate(const formats::Index& index, std::span<const WantedArray> wanted,
                                   const ReadOptions& options);

/// Puts the regions of each file in order, and refuses those that overlap or that the file does not have: memory for all
/// that are returned cannot exceed the files.
///
/// Errors: Errc::not_found, Errc::malformed_metadata, naming file and path.
[[nodiscard]] RegionsByFile check_regions(const formats::Index& index, std::span<const ReadArray> arrays,
                                          RegionsByFile regions, const StoredFiles& files);

/// Makes views of files of all arrays that can be such, and takes their regions away. The others stay without memory.
[[nodiscard]] std::vector<Array> map_arrays(std::span<const ReadArray> arrays, RegionsByFile& regions,
                                            const StoredFiles& files);

/// Gives memory to arrays that have none yet. What lies side by side in a file and is small lies side by side in memory,
/// too, so that it is read at once and costs one allocation.
///
/// Shape: regions are in order, and those of mapped arrays are not among them.
void allocate(std::span<const ReadArray> arrays, const RegionsByFile& regions, std::vector<Array>& memory);

/// Where the bytes of one file go. What lies side by side in the file and in memory is one piece.
///
/// Errors: Errc::invalid_argument for slices that are not contiguous on their device, naming the path.
[[nodiscard]] std::vector<DestinationPiece> make_pieces(const formats::Index& index,
                                                        std::span<const ReadArray> arrays,
                                                        const Regions& regions,
                                                        std::span<const Array> memory);

}  // namespace cairn::array_store
