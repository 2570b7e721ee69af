// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/array/dtype.hpp"

#include "formats/internal/index.hpp"
#include "formats/internal/index_builder.hpp"

namespace cairn::formats {

/// How a small tree lies in one run of bytes: what it begins with, the size of an index (u64), the index, zeros, and
/// the elements of its arrays. Their offsets count from the end of those zeros.
/// Source: docs/format.md, "Packed trees" and "Values of each rank".
struct PackedForm {
  std::string_view magic;
  std::size_t alignment = 8;  ///< Of the first array in the run, and of each behind it.
  std::string_view file;      ///< What the index calls the file of its arrays.
};

/// A file that opens alone.
inline constexpr PackedForm kPackedTree = {"CRNPTREE", 64, "self"};
/// What a rank has of its own, in a row of an array.
inline constexpr PackedForm kValueOfRank = {"", 8, "data"};

/// Makes such a run of bytes.
///
/// Threads: not safe.
/// Errors:  as IndexBuilder.
class TreePacker {
 public:
  explicit TreePacker(const PackedForm& form);

  /// Takes the entries that are not arrays.
  [[nodiscard]] IndexBuilder& entries() noexcept { return builder_; }
  /// Adds an array; its elements are dense and row-major.
  void add_array(std::string_view name, DType dtype, std::span<const std::uint64_t> dims,
                 std::span<const std::byte> elements);
  /// Returns the bytes; this is of no use afterwards.
  [[nodiscard]] std::string finish();

 private:
  PackedForm form_;
  IndexBuilder builder_;
  std::uint32_t file_ = 0;
  std::string data_;
};

/// A packed tree that is read.
///
/// Threads: a value; copies share the bytes.
class PackedTree {
 public:
  /// Copies the bytes, whose address need not be aligned. Each array is whole and lies in them, and all together have
  /// no more bytes than there are. `path` is used in errors only.
  ///
  /// Errors: Errc::malformed_metadata; Errc::unsupported_version as Index::open.
  static PackedTree open(std::span<const std::byte> bytes, const PackedForm& form, std::string path);

  [[nodiscard]] const Index& index() const noexcept { return index_; }
  /// The elements of an array of the index, dense and row-major.
  [[nodiscard]] std::span<const std::byte> elements(const IndexArray& array) const;

 private:
  PackedTree(Index index, std::span<const std::byte> data) : index_(std::move(index)), data_(data) {}

  Index index_;  // Keeps the bytes alive.
  std::span<const std::byte> data_;
};

}  // namespace cairn::formats
