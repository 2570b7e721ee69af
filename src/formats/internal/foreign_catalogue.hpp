// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

namespace cairn::formats {

/// The codec of bytes that are the code points of a text in UTF-8, as pickles of protocol 2 write them.
inline constexpr std::string_view kLatin1Codec = "latin1";

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
  FileRange range;          ///< Where slices are not located: what must be looked into, a tensor's archive.
  std::uint32_t form = 0;   ///< Of ForeignCatalogue::forms.
  std::uint64_t first = 0;  ///< Where slices are not located: which element of that tensor the box begins at.
  std::uint64_t elements = 0;          ///< And how many that tensor has.
  std::optional<std::uint32_t> crc32;  ///< Of the whole range.
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

/// What has no place in a tree, and why. In a list null keeps its place.
struct LeftOut {
  std::string path;
  std::string why;
};

/// What a checkpoint of another program holds.
struct ForeignCatalogue {
  std::vector<std::string> files;
  std::vector<SliceForm> forms{
      SliceForm{}};  ///< The first is the plain one: row-major, little-endian, no codec.
  std::vector<ForeignArray> arrays;
  std::vector<ForeignValue> values;
  std::vector<ForeignObject> objects;
  std::vector<LeftOut> left_out;
  bool is_located = true;  ///< The ranges of slices are those of their elements.

  /// The number of a form, which is added where it is new.
  [[nodiscard]] std::uint32_t add_form(const SliceForm& form);
};

/// Bounds what a description becomes by the size of the file that it was read from: nodes of a pickle are shared, and
/// followed into a tree they can be more than the world has memory for.
class DescriptionBudget {
 public:
  DescriptionBudget(std::uint64_t input_bytes, std::string_view path)
      : path_(path), leaves_(4 * input_bytes + 1024), bytes_((std::uint64_t{8} << 20) + 8 * input_bytes) {}

  /// Takes a leaf, and so many bytes for its path and value.
  ///
  /// Errors: Errc::malformed_metadata when it is too many.
  void take(std::uint64_t bytes);

 private:
  std::string_view path_;
  std::uint64_t leaves_;
  std::uint64_t bytes_;
};

}  // namespace cairn::formats
