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

namespace cairn::formats {

/// Appends `key` to `path`, which is the path of its parent.
///
/// The path of a node in a tree is its keys joined by '/', as an index stores it; the root's is empty. Inside a key '~'
/// is written "~0" and '/' is written "~1"; a key without characters is written "~2". So every sequence of keys has one
/// path and every path one sequence of keys. Elements of lists have decimal keys.
/// Source: docs/format.md, "Names".
void append_key(std::string& path, std::string_view key);

/// The codec of bytes that are the code points of a text in UTF-8, as pickles of protocol 2 write them.
inline constexpr std::string_view kLatin1Codec = "latin1";
/// The codec of bytes that are frames of zstd, as torch.distributed.checkpoint calls it.
inline constexpr std::string_view kZstdCodec = "stream.zstd/1";
/// The codec of bytes that are an archive of torch.save with one tensor: decoded they are its elements, row-major and
/// little-endian. So small parts of distributed checkpoints are read, together with what says where their elements lie.
inline constexpr std::string_view kTorchArchiveCodec = "torch.save";

/// The codecs of floating-point or complex numbers whose signs are to be flipped: those of the imaginary parts, as
/// torch says it of a conjugated tensor, or all of them, as of a negated one. They may follow one another.
inline constexpr std::string_view kConjugateCodec = "torch.conj";
inline constexpr std::string_view kNegateCodec = "torch.neg";

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

/// A number, a boolean, or null.
using Scalar = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double>;

/// A list of scalars, with its elements: as values of their own each of them would have a path.
struct ScalarList {
  std::vector<Scalar> elements;
};

/// A value that is known already; null is std::monostate. A list has an entry of its own, before those of its elements,
/// or is a ScalarList.
struct ForeignValue {
  std::string path;
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::byte>,
               EmptyMap, ListSize, ScalarList>
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
  std::vector<std::string> problems;  ///< What should be known of the files, in sentences with their paths.
  bool is_located = true;             ///< The ranges of slices are those of their elements.
  bool may_overlap = false;           ///< Arrays share bytes: views of one storage.

  /// The number of a form, which is added where it is new.
  [[nodiscard]] std::uint32_t add_form(const SliceForm& form);
};

}  // namespace cairn::formats
