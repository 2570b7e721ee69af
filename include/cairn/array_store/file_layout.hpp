// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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

#include "cairn/async/awaitable.hpp"
#include "cairn/formats/foreign_catalogue.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn::array_store {

/// The files of one checkpointable, to read arrays from.
///
/// Threads: const methods may run at the same time.
/// Errors:  of whatever reads the files; Errc::not_found for one that is not there.
class StoredFiles {
 public:
  virtual ~StoredFiles() = default;

  /// Names the place where they are, for messages.
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

class FileLayout;

/// Holds what is needed of the index of files that others wrote.
struct OpenOptions {
  OpenOptions() = default;

  /// Add what the headers say in `__metadata__`, as strings: under kFileMetadataKey, by the name of the file, by key.
  bool has_file_metadata = false;
  /// Pass over bytes behind the last tensor of a safetensors file, and tell so. Default: they are an error.
  bool allow_trailing_bytes = false;
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

/// A form in which other programs lay out their checkpoints. It recognises their files and describes them; casts,
/// boxes, destinations, loads of several ranks, cancellation and metadata are then the same as for Cairn's own.
///
/// Cairn checks all that it says before it uses it. Give one to a TreeHandler to have it asked.
/// Threads: const methods may run at the same time.
/// Example: docs/interop.md.
class FileLayout {
 public:
  virtual ~FileLayout() = default;

  /// By which TreeLoadOptions::layout asks for it: "torch.archive".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// How surely files of these names are of this layout; 0: they are not. The highest number reads them; of equal ones
  /// a user's, and of those the one that was given last. Reads nothing.
  [[nodiscard]] virtual int recognises(std::span<const std::string> files) const = 0;

  /// Describes the files. Ranks that load together all call it: what it reads by StoredFiles::read_files, one of them
  /// reads for all.
  ///
  /// Errors: Errc::malformed_metadata, naming the file, and what it is when it is not what its name says.
  [[nodiscard]] virtual Awaitable<formats::ForeignCatalogue> describe(
      std::shared_ptr<const StoredFiles> files, OpenOptions options) const = 0;

  /// Finds the elements of slices that are about to be read, where `describe` has said is_located = false: `part` has
  /// some arrays of what that has described, each with some of its slices. Returns those, in the same order, located.
  /// Ranks that load together call it with different parts, and empty ones: each call must read as often as any other.
  /// A verification calls it with all slices, of which nothing is wanted: it must look into each.
  [[nodiscard]] virtual Awaitable<formats::ForeignCatalogue> locate(std::shared_ptr<const StoredFiles> files,
                                                                    formats::ForeignCatalogue part) const;

  /// Returns which ranges of the files are zip archives: a verification compares the sums of all their members.
  /// Default: none.
  [[nodiscard]] virtual std::vector<formats::FileRange> archives(const formats::ForeignCatalogue& described,
                                                                 const StoredFiles& files) const;

  /// Describes what the bytes of an object are: a small tree, whose ranges are in `bytes`. Default: bytes.
  [[nodiscard]] virtual formats::ForeignCatalogue describe_object(std::string_view path,
                                                                  std::span<const std::byte> bytes) const;
};

using FileLayouts = std::vector<std::shared_ptr<const FileLayout>>;

/// The layouts that Cairn knows. No two of them recognise files with the same number.
[[nodiscard]] const FileLayouts& built_in_layouts();

/// The layout of these files: that of this name, or if it is empty the one that recognises them most surely. Null when
/// nobody does.
///
/// Errors: Errc::invalid_argument when none is called so, listing all.
[[nodiscard]] std::shared_ptr<const FileLayout> find_layout(std::span<const std::string> files,
                                                            const FileLayouts& own,
                                                            std::string_view name = {});

}  // namespace cairn::array_store
