// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/internal/file.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// Says what a directory is taken for, and why.
struct Classification {
  EntryClass kind = EntryClass::foreign;
  std::string note;
  io::FileHandle lock;                  ///< Keeps the writer of an abandoned one away.
  std::uint32_t generation = 0;         ///< Of a committed or a displaced one.
  std::vector<std::string_view> marks;  ///< Of its dead writer, in a committed one.
  bool is_empty = false;                ///< A temporary or trash that holds nothing.
  std::string blocked_by;               ///< What has the name of a displaced one.
  bool has_commit = false;              ///< Of a reserved name: a COMMIT that is valid by itself.
  bool hides_older = false;  ///< One that is not sound, and that readers find before older generations.
  std::optional<ManifestFacts> facts;  ///< Of a checkpoint whose manifest can be read.
};

/// An entry and what it was taken for by itself, before it was compared with the others.
struct ScannedEntry {
  RecoveryEntry entry;
  Classification classification;
  std::string home;           ///< Where a displaced checkpoint belongs.
  bool is_immovable = false;  ///< It was to go, and the file system does not let go of it.
};

/// Looks at a directory of checkpoints and says what each entry of it is: for recovery, for removals and for tools.
/// Changes nothing; but unless `dry_run` is set, it makes durable what it believes.
class DirectoryScan {
 public:
  DirectoryScan(const io::Directory& root, RecoveryOptions options);

  /// All that recovery decides is decided here, whether or not it is done afterwards. Where there is much to look at,
  /// as many as `most_threads` do so. What is foreign goes to `foreign`, or nowhere. Both are sorted by name.
  /// Memory: of a foreign entry what `foreign` gets.
  [[nodiscard]] std::vector<ScannedEntry> run(std::size_t most_threads = 1,
                                              std::vector<RecoveryEntry>* foreign = nullptr) const;

  /// Judges a directory by its name, by what is in it, and by what stands where it belongs.
  [[nodiscard]] Classification classify(const io::Directory& directory, std::string_view name) const;

  /// Returns whether readers find a later generation, a sound one, instead of the one called `name`.
  [[nodiscard]] bool has_sound_successor(std::string_view name) const;

 private:
  /// Says who holds a directory, as far as its owner file tells.
  enum class Holder : std::uint8_t { nobody, somebody, unknown };

  [[nodiscard]] std::vector<ScannedEntry> look_at_all(const std::vector<io::DirectoryEntry>& entries,
                                                      std::size_t most_threads,
                                                      std::vector<RecoveryEntry>* foreign) const;
  [[nodiscard]] std::vector<ScannedEntry> look_at_each(std::span<const io::DirectoryEntry> entries,
                                                       std::size_t most_threads) const;
  [[nodiscard]] Classification look_at(const io::DirectoryEntry& entry) const;
  void classify_reserved(Classification& classification, const io::Directory& directory,
                         std::string_view name) const;
  void classify_set_aside(Classification& classification, const io::Directory& directory,
                          std::string_view base) const;
  /// Returns the uuid of the writer that a mark names, if it does.
  std::optional<Uuid> classify_holder(Classification& classification, const io::Directory& directory,
                                      std::string_view owner_name) const;
  [[nodiscard]] Holder classify_lock(int locked, bool is_far, bool is_gone) const;
  void classify_final(Classification& classification, const io::Directory& directory,
                      std::string_view name) const;
  [[nodiscard]] std::vector<std::string_view> left_marks(const io::Directory& directory) const;
  [[nodiscard]] bool is_left_mark(const io::Directory& directory, std::string_view name) const;

  const io::Directory& root_;
  RecoveryOptions options_;
  bool is_shared_;
};

}  // namespace cairn::store
