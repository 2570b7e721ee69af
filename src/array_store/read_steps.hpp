// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/formats/foreign_catalogue.hpp"

#include "array/internal/cast.hpp"
#include "array_store/internal/reader.hpp"
#include "formats/internal/foreign_index.hpp"

namespace cairn::array_store {

// The steps of plan_read, in their order. Each takes values and returns values: what is stored and wanted becomes
// regions of files, those are checked, get memory, and become pieces.

/// The largest array that shares memory with its neighbours in the file.
inline constexpr std::uint64_t kMostSmallBytes = 64 << 10;

/// The elements that a slice and a wanted box of an array share.
struct SlicePart {
  std::uint32_t slice = 0;
  std::uint32_t shard = 0;  ///< Number of the wanted box.
  Box shared;               ///< In coordinates of the array; has elements.
};

/// The reads of an array of which boxes are wanted.
struct ReadBoxes {
  std::span<const WantedShard> shards;
  std::vector<WantedShard> only;       ///< What `shards` shows where one box is wanted, as one array.
  std::vector<DeviceCopier*> copiers;  ///< Of the devices that they go to.
  std::vector<SlicePart> parts;        ///< In the order of the slices.
  Box stored;                          ///< The array as the files have it: what is wanted beyond it is zeros.

  /// What is wanted of one slice.
  [[nodiscard]] std::pair<std::vector<SlicePart>::const_iterator, std::vector<SlicePart>::const_iterator>
  parts_of(std::uint32_t slice) const {
    return std::equal_range(parts.begin(), parts.end(), SlicePart{slice, 0, {}},
                            [](const SlicePart& a, const SlicePart& b) { return a.slice < b.slice; });
  }
};

/// An array that is read: what is stored, and what becomes of it.
struct ReadArray {
  formats::IndexArray stored;
  DType dtype{};
  Narrowing narrowing = Narrowing::refused;
  const Array* destination = nullptr;  ///< Null: it gets memory of its own.
  DeviceCopier* copier = nullptr;      ///< Of the device that it goes to; null: the host's memory.
  bool is_plain = false;               ///< Its bytes in the file are its bytes in memory.
  bool has_form = false;  ///< It is stored as one slice, whose elements do not lie one behind the other.
  bool is_raw = false;    ///< It is an object: its bytes are taken as they are.
  bool is_small = false;  ///< It is plain, and not worth memory of its own.
  std::size_t first = 0;  ///< Its number, or that of its first box, among the arrays that come of all.
  const ReadBoxes* boxes = nullptr;  ///< What is wanted of it; null: all, as one array.
  /// Which of the arrays before it is the same in every way, under another name: its elements are in the same memory.
  std::optional<std::size_t> same_as;

  /// How many arrays come of it.
  [[nodiscard]] std::size_t count() const noexcept { return boxes != nullptr ? boxes->shards.size() : 1; }
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

/// Says what a read takes from where. An array that is wanted under several names is read once where all want
/// the same.
struct LocatedArrays {
  std::vector<ReadArray> arrays;  ///< As they were asked for.
  std::deque<ReadBoxes> boxes;    ///< Of some of those.
  RegionsByFile regions;
  std::size_t count = 0;  ///< How many arrays come of them.
};

/// Finds the bytes of arrays, and checks that they can be loaded to their destinations, that no two destinations
/// overlap, and that slices tile what is wanted; others are left out. The result refers to all that is given.
///
/// Errors: those of plan_read that do not depend on the files.
[[nodiscard]] LocatedArrays locate(const formats::Index& index, std::span<const WantedArray> wanted,
                                   const ReadOptions& options);

/// How much memory is given for so many bytes of files of other programs.
[[nodiscard]] std::uint64_t most_bytes_for(std::uint64_t bytes) noexcept;

/// Refuses arrays of other programs' files that are not located, are encoded in a way that is not read, or ask for more
/// memory than most_bytes_of.
///
/// Errors: see plan_read.
void check_foreign(const formats::Index& index, const LocatedArrays& located, const StoredFiles& files);

/// Returns whether the bytes of a slice are collected before its elements are taken out of them: they are encoded, in
/// another byte order, or elements share bytes.
[[nodiscard]] bool is_collected(const formats::SliceForm& form, const Shape& extents, DType dtype);

/// Puts the regions of each file in order, and refuses those that overlap, unless they may, or that the file does not
/// have: memory for all others that are returned cannot exceed the files.
///
/// Errors: Errc::not_found, Errc::malformed_metadata, naming file and path.
[[nodiscard]] RegionsByFile check_regions(const formats::Index& index, std::span<const ReadArray> arrays,
                                          RegionsByFile regions, const StoredFiles& files);

/// Makes views of files of all arrays that can be such, and takes their regions away. The others of `memory` stay
/// without.
void map_arrays(std::span<const ReadArray> arrays, RegionsByFile& regions, const StoredFiles& files,
                std::vector<Array>& memory);

/// Gives memory to arrays that have none yet. What lies side by side in a file and is small lies side by side in
/// memory, too, so that it is read at once and costs one allocation.
///
/// Shape: regions are in order, and those of mapped arrays are not among them.
void allocate(std::span<const ReadArray> arrays, const RegionsByFile& regions, std::vector<Array>& memory);

/// Where the bytes of one file go. What lies side by side in the file and in memory is one piece; what several boxes
/// want of a slice is one, too, where it interleaves.
///
/// Errors: Errc::invalid_argument for boxes that cut packed elements, naming the path.
[[nodiscard]] std::vector<DestinationPiece> make_pieces(const formats::Index& index,
                                                        std::span<const ReadArray> arrays,
                                                        const Regions& regions,
                                                        std::span<const Array> memory);

/// Makes one list of pieces of several: bytes that pieces of different lists want go to all of those. No list has
/// pieces that overlap.
[[nodiscard]] std::vector<DestinationPiece> join_pieces(std::vector<std::vector<DestinationPiece>> lists);

/// Adds the pieces of one region to those of its file: of an array that is stored in slices, or of which boxes are
/// wanted.
///
/// Errors: as make_pieces.
void add_box_pieces(const formats::Index& index, const ReadArray& array, const Region& region,
                    std::span<const Array> memory, std::vector<DestinationPiece>& pieces);

/// " (sharding policy "...")": who decided what is in the files, for messages; empty where nobody did.
[[nodiscard]] std::string shown_policy(std::string_view description);

}  // namespace cairn::array_store
