// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"

#include "io/internal/chunk_hash.hpp"
#include "io/internal/new_file.hpp"
#include "staging/internal/data_plane.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/new_checkpoint.hpp"
#include "store/internal/source.hpp"

namespace cairn::store {

/// Creates a file of a new checkpoint. Blocks.
using CreateFile = std::function<std::unique_ptr<io::NewFile>(const std::string& relative,
                                                              const io::NewFileOptions& options)>;

/// Copies a file of a checkpoint, and compares each byte with its hashes before it ends. Returns its digest. Of a
/// checkpoint in memory that `is_held` it is written from where it lies: nobody cuts it meanwhile.
///
/// Ownership: what `create` refers to must live as long as the plane.
/// Errors:    Errc::checksum_mismatch, naming file and chunk; Errc::not_found; those of `create`; OS errors.
[[nodiscard]] Background<io::FileDigest> copy_file(std::shared_ptr<staging::DataPlane> plane,
                                                   std::shared_ptr<const Source> from, std::string relative,
                                                   CreateFile create, bool is_held = false);

/// Returns the directories in which the files of a manifest lie, those of its checkpointables among them: the first
/// components of their paths.
[[nodiscard]] std::set<std::string, std::less<>> directories_of(const Manifest& manifest);

class Assembly;

/// A file of an assembly that is written from its beginning to its end. Every call blocks.
class AssembledFile {
 public:
  void append(std::span<const std::byte> bytes);
  /// Returns when it is durable, and belongs to the assembly.
  void finish();

 private:
  friend class Assembly;
  AssembledFile(Assembly& assembly, std::string relative, std::uint64_t expected_bytes);

  Assembly& assembly_;
  const std::string relative_;
  const std::unique_ptr<io::NewFile> file_;
  io::ChunkHasher hasher_;
  std::uint64_t size_bytes_ = 0;
};

/// Puts a new checkpoint together: links files of other checkpoints, copies them or writes new ones, and knows what
/// each must hash to. Every call blocks.
/// Memory: eight bytes for each MiB of the files; what `copy` reads at once.
class Assembly {
 public:
  /// `target` was begun with the engine of the plane. Both outlive the assembly.
  Assembly(staging::OwnPlane& own, NewCheckpoint& target) : own_(own), target_(target) {}

  /// Gives a file of another checkpoint a second name, or copies it where there are no links. Its kind and size are
  /// checked; its bytes only where it is copied.
  ///
  /// Errors: what is wrong with the file; OS errors.
  void link(const std::shared_ptr<const Source>& from, const FileEntry& file);
  /// Errors: as `copy_file`.
  void copy(const std::shared_ptr<const Source>& from, const FileEntry& file);
  [[nodiscard]] AssembledFile create(std::string relative, std::uint64_t expected_bytes);
  void write(std::string relative, std::span<const std::byte> bytes);

  /// Errors: as NewCheckpoint::publish.
  void publish(Manifest manifest);

 private:
  friend class AssembledFile;

  /// Makes the directory of a checkpointable for its first file.
  void make_room(std::string_view relative);
  /// Waits until a task has ended.
  void run(Awaitable<> task) const;

  staging::OwnPlane& own_;
  NewCheckpoint& target_;
  std::set<std::string, std::less<>> directories_;  // That are there.
  std::vector<io::FileDigest> digests_;
};

}  // namespace cairn::store
