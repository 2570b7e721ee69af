// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "formats/internal/index.hpp"

namespace cairn::formats {

/// The codec of objects of which each rank of Megatron-Core has its own: the one element of a list is the object. Bytes
/// stay as they are.
inline constexpr std::string_view kShardCodec = "megatron.shard";

/// Says where the bytes of a slice lie that are not one behind the other, or not known yet.
struct PlacedSlice {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t first = 0;     ///< As in ForeignSlice.
  std::uint64_t elements = 0;  ///< As in ForeignSlice.
  std::uint32_t form = 0;
  bool is_located = true;
  std::optional<std::uint32_t> crc32;  ///< As in ForeignSlice.
};

/// Holds what is known of other programs' files beyond what an index says.
struct ForeignDetails {
  std::string layout;  ///< Its name.
  std::vector<SliceForm> forms;
  /// By the numbers of slices in the index. None where all bytes lie one behind the other.
  std::vector<PlacedSlice> slices;
  std::vector<LeftOut> left_out;
  std::vector<std::string> problems;  ///< As in ForeignCatalogue.
  bool is_located = true;
  bool may_overlap = false;
  std::vector<std::string> stored_paths;  ///< By the numbers of arrays, where they were renamed; else none.
};

/// Returns what an array, or an object, is called by the layout of its files.
[[nodiscard]] std::string stored_path(const Index& index, const IndexArray& array);

/// Checks a description, from whatever file it comes, and makes an index of it. Arrays of the same bytes become one
/// array with several names. That slices tile their arrays, and that files have the bytes, is checked when they are
/// read. `path` is used in errors only.
///
/// Errors: Errc::malformed_metadata, naming the path of the array or value.
[[nodiscard]] Index make_index(ForeignCatalogue catalogue, std::string path);

/// Returns the index with slices where `located` has them: its arrays and their slices are some of those of the index,
/// in the same order, `numbers` are theirs in the index.
///
/// Errors: as make_index.
[[nodiscard]] Index with_located(Index index, const ForeignCatalogue& located,
                                 const std::vector<std::uint32_t>& numbers);

/// Says what is left out, and why, in sentences for the problems of a load; many are counted.
[[nodiscard]] std::vector<std::string> left_out_texts(std::span<const LeftOut> left_out);

/// Holds what is known of a slice whose bytes are not its elements as they are.
struct EncodedSlice {
  SliceForm form;
  DType dtype{};
  Shape extents;                   ///< Of its box.
  std::uint64_t first = 0;         ///< As in ForeignSlice.
  std::uint64_t elements = 0;      ///< As in ForeignSlice.
  std::uint64_t needed_bytes = 0;  ///< From its first element to the end of the last one, once it is decoded.
  std::string name;                ///< Its file and path, for errors.
};

/// Undoes the codecs of a slice, and swaps what is big-endian. Returns the bytes from its first element on: a part of
/// `bytes`, or of `memory`, which is replaced. Decoded bytes are no more than elements ask for, and 1 MiB.
///
/// Errors: Errc::malformed_metadata when the bytes are not of those codecs, or are fewer than the slice needs, or more;
///         Errc::checksum_mismatch when an archive has a sum of its elements that is another; Errc::feature_missing, as
///         check_codecs.
[[nodiscard]] std::span<const std::byte> decode(std::span<const std::byte> bytes, const EncodedSlice& slice,
                                                std::vector<std::byte>& memory);

/// Refuses codecs that decode does not know. `path` is that of the array.
///
/// Errors: Errc::feature_missing.
void check_codecs(const SliceForm& form, std::string_view path);

}  // namespace cairn::formats
