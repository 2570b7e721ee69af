// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array_store/reader.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

namespace cairn::array_store {

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
  void describe(const FileLayout& layout, const std::string& source, std::string_view path);

  std::vector<std::byte> decoded_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const StoredFiles> files_;
  std::optional<formats::Index> index_;
};

}  // namespace cairn::array_store
