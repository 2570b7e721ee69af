// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/store/reports.hpp"

#include "io/internal/chunk_hash.hpp"
#include "io/internal/file.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// How often a reader begins again because its checkpoint was replaced: a program that replaces checkpoints faster
/// than they can be read must be told.
inline constexpr int kMostRestarts = 10;

template <class Less>
class FileIndex;

/// A committed checkpoint, open for reading.
///
/// Invariant: `manifest()` is the one that COMMIT vouches for. Data files are checked when they are opened
///            (kind and size) and when their chunks are read (`verify_chunks`).
/// Every call blocks.
/// Threads: const methods may run concurrently.
class CommittedDirectory {
 public:
  /// Opens the checkpoint at `path`: its highest committed generation.
  ///
  /// Reads COMMIT and checkpoint.json; tables of chunk hashes and the data wait until they are asked for. A
  /// checkpoint that is replaced meanwhile gives the new one. `known_manifest` is the text of checkpoint.json, where
  /// the caller has it already: it is not read when COMMIT vouches for that.
  /// Errors: Errc::not_found; Errc::not_committed (a temporary or any other directory, or a file);
  ///         Errc::unsupported_version; Errc::malformed_metadata; Errc::checksum_mismatch; each
  ///         names the file.
  static CommittedDirectory open(io::Syscalls& syscalls, const std::filesystem::path& path,
                                 const std::string& known_manifest = {});

  /// Reads the text of checkpoint.json.
  ///
  /// Errors: Errc::checksum_mismatch, OS errors.
  [[nodiscard]] std::string manifest_text() const;

  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }

  [[nodiscard]] const CommitRecord& commit() const noexcept { return commit_; }

  [[nodiscard]] const io::Directory& directory() const noexcept { return directory_; }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return directory_.path(); }

  /// The entry of a file, or null when the checkpoint has none of that path.
  [[nodiscard]] const FileEntry* find(std::string_view relative) const noexcept;

  /// The names of the files below `directory`, relative to it, sorted. Takes no longer than there are such files.
  [[nodiscard]] std::vector<std::string> files_below(std::string_view directory) const;

  /// Opens a file of the checkpoint.
  ///
  /// Errors: Errc::not_found when the checkpoint does not list it or it is gone;
  /// Errc::malformed_metadata when
  ///         it is not a regular file; Errc::checksum_mismatch when its size is not the one that was
  ///         written.
  [[nodiscard]] io::FileHandle open_file(std::string_view relative, int flags = 0) const;

  /// The chunk hashes of a file, checked against its root.
  ///
  /// Errors: Errc::not_found, Errc::checksum_mismatch.
  [[nodiscard]] io::FileDigest digest(std::string_view relative) const;

  /// Reads a whole small file and verifies every chunk of it.
  ///
  /// Errors: as `open_file` and `digest`; Errc::malformed_metadata when it is larger than
  /// `max_bytes`.
  [[nodiscard]] std::string read_verified(std::string_view relative, std::size_t max_bytes) const;

 private:
  CommittedDirectory(io::Directory directory, CommitRecord commit, Manifest manifest);

  io::Directory directory_;
  CommitRecord commit_;
  Manifest manifest_;
  std::shared_ptr<const FileIndex<std::less<>>> index_;
};

/// Holds what a manifest says of its checkpoint in a few words.
struct ManifestFacts {
  std::string committed;  ///< As Manifest::committed.
  std::optional<CommitTime> commit_time;
  std::optional<CommitTime> start_time;  ///< Of the save.
  std::uint64_t checkpointables = 0;
  std::uint64_t bytes = 0;         ///< In its files.
  std::string annotations = "{}";  ///< As Manifest::annotations.
};

/// Holds what `check_commit` found.
struct CommitCheck {
  bool is_committed = false;
  std::uint32_t generation = 0;  ///< As the manifest says; 0 when it cannot be read.
  Uuid uuid;                     ///< Likewise; zeros.
  std::string problem;           ///< Why it is not committed; empty when it is.
  /// What the operating system said when it could not be read: then it may be committed or not.
  std::error_code unreadable;
  std::optional<ManifestFacts>
      facts;  ///< Nothing when the manifest cannot be read, or COMMIT does not vouch for it.
};

/// Checks the checkpoint called `name` without throwing for damage: what recovery and listings need.
/// With `check_files`, every file must exist as a regular file of the recorded size; no data is read.
///
/// Errors: EMFILE, ENFILE and ENOMEM pass through, because they say nothing about the checkpoint.
[[nodiscard]] CommitCheck check_commit(const io::Directory& parent, std::string_view name, bool check_files);

}  // namespace cairn::store
