// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/staging/device_copier.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn::array_store {

/// The file that says which arrays and scalars a checkpointable has.
inline constexpr std::string_view kIndexFile = "index.fb";

/// Returns whether a file of that name holds tensors. Those in sub-folders do not count.
[[nodiscard]] bool is_safetensors(std::string_view file) noexcept;

/// Returns whether a file of that name says which of the safetensors files of a folder holds which tensor.
[[nodiscard]] bool is_safetensors_index(std::string_view file) noexcept;

/// The files of one checkpointable, to read arrays from.
///
/// Threads: const methods may run at the same time.
/// Errors:  of whatever reads the files; Errc::not_found for one that is not there.
class StoredFiles {
 public:
  virtual ~StoredFiles() = default;

  /// Where they are, for messages.
  [[nodiscard]] virtual std::filesystem::path directory() const = 0;
  /// Their names.
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;
  /// The one whose path the caller gave; empty where it is the folder of all.
  [[nodiscard]] virtual std::string named_file() const { return {}; }
  /// The size of one, or nothing when there is none of that name.
  [[nodiscard]] virtual std::optional<std::uint64_t> size_bytes(std::string_view file) const = 0;
  /// Reads a whole file.
  [[nodiscard]] virtual Awaitable<std::string> read(std::string file) const = 0;
  /// Reads ranges of a file to where the pieces want them.
  [[nodiscard]] virtual Awaitable<> read_pieces(std::string file,
                                                std::vector<DestinationPiece> pieces) const = 0;
  /// Reads ranges of several files, all at once. Where the ranks of a job load together all of them call it, in the
  /// same order, each with what it wants itself, which may be nothing. Errors about a missing or damaged file say
  /// what is noted of it.
  [[nodiscard]] virtual Awaitable<> read_files(PiecesByFile pieces, NotesByFile notes) const;
  /// Maps a file into memory; null where that cannot be: then it is read.
  [[nodiscard]] virtual std::shared_ptr<const std::span<const std::byte>> map(
      std::string_view file) const = 0;
};

/// The key under which an index that is made of headers has their `__metadata__`: no tensor is called so.
inline constexpr std::string_view kFileMetadataKey = "__metadata__";

class FileLayout;  // cairn/array_store/file_layout.hpp

/// Holds what is needed of the index of files that others wrote.
struct OpenOptions {
  OpenOptions() = default;

  /// Add what the headers say in `__metadata__`, as strings: under kFileMetadataKey, by the name of the file, by key.
  bool has_file_metadata = false;
  /// Take what there is of a model of which shards are missing, and tell so. Default: it is an error that names them.
  bool is_partial = false;
  /// The tensors that are wanted: then no shard is opened that holds none of them, where a list says so, and those
  /// that are opened must be there. For is_partial only; nothing: all.
  std::optional<std::set<std::string, std::less<>>> wanted;
  /// Told what is missing; null: nobody is.
  std::function<void(const std::string&)> on_problem;
  /// Describes the files; null: the built-in layout that recognises them.
  std::shared_ptr<const FileLayout> layout;
};

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

}  // namespace cairn::array_store
