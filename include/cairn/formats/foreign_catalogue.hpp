// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/formats/index.hpp"

namespace cairn::formats {

/// The codec of bytes that are the code points of a text in UTF-8, as pickles of protocol 2 write them.
inline constexpr std::string_view kLatin1Codec = "latin1";
/// The codec of bytes that are frames of zstd, as torch.distributed.checkpoint calls it.
inline constexpr std::string_view kZstdCodec = "stream.zstd/1";
/// The codec of bytes that are an archive of torch.save with one tensor: decoded they are its elements, row-major and
/// little-endian. So small parts of distributed checkpoints are read, together with what says where their elements lie.
inline constexpr std::string_view kTorchArchiveCodec = "torch.save";

/// How the elements of a slice lie in its range.
struct SliceForm {
  /// Bytes from one element to the next along each axis, never negative; of other than row-major slices only.
  std::optional<Strides> strides;
  bool is_big_endian = false;
  std::vector<std::string> codecs;  ///< In the order of decoding. Strides count decoded bytes.
  bool operator==(const SliceForm&) const = default;
};

/// Bytes [begin, end) of a file.
struct FileRange {
  std::uint32_t file = 0;  ///< Of ForeignCatalogue::files.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// A box of an array and where its elements lie.
struct ForeignSlice {
  Box box;
  FileRange range;         ///< Where slices are not located: what must be looked into, a tensor's archive.
  std::uint32_t form = 0;  ///< Of ForeignCatalogue::forms.
  std::uint64_t first =
      0;  ///< Of slices that are not located, or archives: which element of that tensor the box
          ///< begins at.
  std::uint64_t elements = 0;          ///< And how many that tensor has.
  std::optional<std::uint32_t> crc32;  ///< Of the whole range.
  std::uint64_t wanted = 0;            ///< How many elements of the box a load wants; told to `locate` only.
};

/// Invariant: slices lie inside the shape. They have elements; an array without any has no slice.
struct ForeignArray {
  std::string path;  ///< See append_key.
  DType dtype{};
  Shape shape;
  std::vector<ForeignSlice> slices;
};

struct EmptyMap {};
struct ListSize {
  std::uint64_t size = 0;
};

/// A value that is known already; null is std::monostate. A list has an entry of its own, before those of its elements.
struct ForeignValue {
  std::string path;
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::byte>,
               EmptyMap, ListSize>
      value;
};

/// A value whose kind is not known before its bytes have been read.
struct ForeignObject {
  std::string path;
  FileRange range;
  std::uint32_t form = 0;
};

/// An object that has no place in a tree, and why. In a list null keeps its place.
struct LeftOut {
  std::string path;
  std::string why;
};

/// The contents of a checkpoint of another program.
struct ForeignCatalogue {
  std::string layout;  ///< Its name; whoever asks the layout enters it.
  std::vector<std::string> files;
  std::vector<SliceForm> forms{
      SliceForm{}};  ///< The first is the plain one: row-major, little-endian, no codec.
  std::vector<ForeignArray> arrays;
  std::vector<ForeignValue> values;
  std::vector<ForeignObject> objects;
  std::vector<LeftOut> left_out;
  bool is_located = true;    ///< The ranges of slices are those of their elements.
  bool may_overlap = false;  ///< Arrays share bytes: views of one storage.

  /// The number of a form, which is added where it is new.
  [[nodiscard]] std::uint32_t add_form(const SliceForm& form);
};

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
  bool is_located = true;
  bool may_overlap = false;
};

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
