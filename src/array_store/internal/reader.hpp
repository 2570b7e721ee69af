// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/staging/device_copier.hpp"
#include "cairn/staging/pieces.hpp"

#include "formats/internal/index.hpp"

namespace cairn::array_store {

/// The file that says which arrays and scalars a checkpointable has.
inline constexpr std::string_view kIndexFile = "index.fb";

/// Returns whether a file of that name holds tensors. Those in sub-folders do not count.
[[nodiscard]] bool is_safetensors(std::string_view file) noexcept;

/// Returns whether a file of that name says which of the safetensors files of a folder holds which tensor.
[[nodiscard]] bool is_safetensors_index(std::string_view file) noexcept;

/// The index of a checkpointable. For files that others wrote it is made of what their layout describes.
///
/// Errors: Errc::not_found when there is neither an index nor a file that a layout recognises, or a shard is missing;
///         Errc::invalid_argument when several files say which file holds which tensor; Errc::malformed_metadata, …
[[nodiscard]] Awaitable<formats::Index> open_index(std::shared_ptr<const StoredFiles> files,
                                                   OpenOptions options = {});

/// An array to read.
struct WantedArray {
  formats::IndexEntry entry;  ///< Of kind array.
  const AbstractArray* form =
      nullptr;  ///< The requested dtype, memory and box; null: all as stored, in new memory.
  /// The boxes that are wanted of it, instead of `form`; null: all of it.
  const AbstractShardedArray* boxes = nullptr;
};

struct ReadOptions {
  ReadOptions() = default;

  /// Permit casts that change values for every array; see AbstractArray::allows_narrowing.
  bool allow_narrowing = false;
  /// What becomes of every array that has another shape on disk; see AbstractArray::on_mismatch.
  ShapeMismatch on_mismatch = ShapeMismatch::refuse;
  /// Make read-only views of the files of all arrays that can be such; see TreeLoadOptions::map.
  bool map = false;
  /// Finds the copier that reaches the memory of a device, or null; without it arrays for devices are
  /// refused.
  std::function<DeviceCopier*(Device)> copier_of;
};

/// Where the bytes of files go, to make arrays of them.
struct ReadPlan {
  PiecesByFile pieces;
  NotesByFile notes;  ///< Of those files, by which sharding policies they were made.
  std::vector<Array>
      arrays;  ///< As asked for; for an array of which boxes are wanted there is one for each box, in
               ///< their order. They have memory, but no elements before the pieces have been read.
};

/// Plans to read arrays of an index whose slices lie in `files`. Reads nothing itself; it maps files where that is
/// asked for.
///
/// Nothing is allocated before it is certain that the files have bytes for it; for other programs' arrays, of which
/// several may view the same bytes, at most 16 bytes for each byte of the files, and 16 MiB more. What is given is
/// not kept.
/// Shape:  of `form` or `boxes`, if given, is the stored one, unless they or the options allow another: then elements
///         that the files lack are zeros before the pieces are read.
/// Errors: Errc::unsafe_cast, naming the path; Errc::not_found when a file is missing; Errc::malformed_metadata when
///         the index contradicts itself or the files; Errc::incomplete_shards and Errc::overlapping_shards when
///         slices do not tile what is wanted; Errc::invalid_argument when they cannot be loaded to an array on a
///         device, when two arrays have the same destination, when wanted boxes overlap without being replicas, cut
///         elements of a packed type in a way that bytes do not allow, or want zeros of a packed type or on a device,
///         or slices have not been located (see locate_wanted); Errc::feature_missing, naming a codec that is not read;
///         Errc::shape_mismatch where shapes differ that may not; Errc::shape_mismatch and Errc::dtype_mismatch when
///         that memory is not of the form that is wanted.
[[nodiscard]] ReadPlan plan_read(const formats::Index& index, std::span<const WantedArray> wanted,
                                 const ReadOptions& options, const StoredFiles& files);

/// Reads all pieces of a plan, all files at once, as StoredFiles::read_files.
[[nodiscard]] Awaitable<> read(std::shared_ptr<const StoredFiles> files, PiecesByFile pieces,
                               NotesByFile notes);
[[nodiscard]] Awaitable<> read(std::shared_ptr<const StoredFiles> files, PiecesByFile pieces);

/// Finds the elements of what is wanted of an index, where that is not known yet: before plan_read, and on all ranks
/// that load together.
///
/// Errors: those of FileLayout::locate; Errc::malformed_metadata.
[[nodiscard]] Awaitable<formats::Index> locate_wanted(std::shared_ptr<const StoredFiles> files,
                                                      std::shared_ptr<const FileLayout> layout,
                                                      formats::Index index, std::vector<WantedArray> wanted,
                                                      ReadOptions options);

/// How much memory a load gives to arrays of other programs' files, whose elements need not all be there.
[[nodiscard]] std::uint64_t most_bytes_of(const StoredFiles& files);

/// An object of another program whose bytes have been read: a small tree.
/// Ownership: refers to the bytes.
class StoredObject {
 public:
  /// `entry` is that of the object in the index `of`; its bytes are as they are stored.
  ///
  /// Errors: those of decode, FileLayout::describe_object and make_index. Memory: decoded bytes are no more than 16
  ///         times as many, and 16 MiB.
  StoredObject(const FileLayout& layout, const formats::Index& of, const formats::IndexEntry& entry,
               std::span<const std::byte> bytes);
  /// An object that is a file of its own, `path` of `source`, which name it in errors.
  ///
  /// Errors: those of FileLayout::describe_object and make_index.
  StoredObject(const FileLayout& layout, const std::string& source, std::string_view path,
               std::span<const std::byte> bytes);
  StoredObject(const StoredObject&) = delete;
  StoredObject& operator=(const StoredObject&) = delete;

  [[nodiscard]] const formats::Index& index() const noexcept { return *index_; }
  /// Takes arrays out of the bytes.
  ///
  /// Errors: those of plan_read.
  [[nodiscard]] std::vector<Array> read(std::span<const WantedArray> wanted) const;

 private:
  /// Of a shard the one element of a list is the object.
  void describe(const FileLayout& layout, const std::string& source, std::string_view path, bool is_shard);

  std::vector<std::byte> decoded_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const StoredFiles> files_;
  std::optional<formats::Index> index_;
};

}  // namespace cairn::array_store
