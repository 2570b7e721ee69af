// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/internal/chunk_hash.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

inline constexpr std::uint32_t kFormatVersion = 1;

/// Names that a checkpoint keeps for itself, besides all that start with a dot; no checkpointable's directory may
/// be called so.
inline constexpr std::string_view kCommitName = "COMMIT";
inline constexpr std::string_view kManifestName = "checkpoint.json";
inline constexpr std::string_view kChunksName = "chunks.xxh3";
inline constexpr std::string_view kOwnerName = ".owner";

/// Holds the tables of chunk hashes of all ranks but rank 0, whose table is `kChunksName`.
inline constexpr std::string_view kTablesName = ".chunks";

/// Limits on what is read; what is written obeys them too.
inline constexpr std::size_t kMaxManifestBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMaxCustomMetadataBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxMetadataDepth = 32;
inline constexpr std::size_t kCommitBytes = 80;

struct FileEntry {
  std::string path;  ///< Relative, plain components, '/' between them.
  std::uint64_t size_bytes = 0;
  Hash128 root;
  std::uint32_t rank = 0;  ///< Who wrote it; its chunk hashes are in that rank's table.
  friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

struct CheckpointableEntry {
  std::string name;  ///< Any UTF-8 text; never used as a path.
  std::string handler_id;
  std::string directory;  ///< One plain component.
  friend bool operator==(const CheckpointableEntry&, const CheckpointableEntry&) = default;
};

/// Holds what `checkpoint.json` says.
///
/// Invariant of a decoded one: names, directories and file paths are distinct and plain; no file
/// lies under
///                             another; sizes add up without overflow; ranks are below
///                             `world_size`.
struct Manifest {
  Uuid uuid;
  /// Counts the overwrites of one target; see docs/reliability.md.
  std::uint32_t generation = 1;
  std::string started;  ///< UTC, "2026-01-31T12:00:00Z"; for people.
  /// Of the second in `started`; 0 also when nobody has recorded them.
  std::uint32_t started_nanoseconds = 0;
  std::string committed;                    ///< Likewise.
  std::uint32_t committed_nanoseconds = 0;  ///< Likewise.
  std::uint32_t world_size = 1;
  /// The caller's own JSON value, as text. Numbers beyond 64-bit integers and doubles lose digits.
  std::string custom_metadata = "null";
  /// What programs on top keep of a checkpoint to find it by, as the text of a JSON object: a member for each of them.
  std::string annotations = "{}";
  std::vector<CheckpointableEntry> checkpointables;
  std::vector<FileEntry> files;  ///< Those of one rank are in the order of its table of chunk hashes.
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// The text of `checkpoint.json`.
///
/// Errors: Errc::invalid_argument when `decode_manifest` would refuse it.
[[nodiscard]] std::string encode_manifest(const Manifest& manifest);

/// Reads `checkpoint.json`; `path` names it in errors.
///
/// Errors: Errc::unsupported_version for a later format, Errc::malformed_metadata for all else.
[[nodiscard]] Manifest decode_manifest(std::string_view text, std::string_view path);

/// Holds what `COMMIT` says.
struct CommitRecord {
  Uuid uuid;
  std::uint64_t manifest_bytes = 0;
  Hash128 manifest_hash;
  friend bool operator==(const CommitRecord&, const CommitRecord&) = default;
};

/// `kCommitBytes` bytes: magic, version, uuid, size and XXH3-128 of `checkpoint.json`, XXH3-64 of
/// all before.
[[nodiscard]] std::string encode_commit(const CommitRecord& record);

/// Errors: Errc::unsupported_version for a later format, Errc::checksum_mismatch when the record
/// contradicts
///         its own checksum, Errc::malformed_metadata for all else.
[[nodiscard]] CommitRecord decode_commit(std::string_view bytes, std::string_view path);

/// The bytes of a table of chunk hashes: those of every file, eight little-endian bytes each.
[[nodiscard]] std::string encode_chunks(std::span<const io::FileDigest> digests);
/// Where a rank's table lies in the checkpoint: "chunks.xxh3" for rank 0, ".chunks/r00003.xxh3" for rank 3.
[[nodiscard]] std::string table_name(std::uint32_t rank);
/// The tables that these files have, and how many bytes each has: one for each rank that wrote a file, and that of
/// rank 0.
[[nodiscard]] std::map<std::uint32_t, std::uint64_t> chunk_tables(std::span<const FileEntry> files);

/// Returns whether `name` may be a checkpointable's directory: one plain component, none of the reserved
/// names.
[[nodiscard]] bool is_checkpointable_directory(std::string_view name) noexcept;

/// Checks a caller's JSON text and returns it without needless blanks.
///
/// Errors: Errc::invalid_argument when it is not JSON, larger or deeper than the limits, or has a
/// key twice.
[[nodiscard]] std::string normalise_custom_metadata(std::string_view text);

/// The same for annotations.
///
/// Errors: as above; Errc::invalid_argument also when it is another value than an object.
[[nodiscard]] std::string normalise_annotations(std::string_view text);

}  // namespace cairn::store
