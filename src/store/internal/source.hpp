// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/internal/chunk_hash.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/file.hpp"
#include "io/internal/stored_file.hpp"
#include "staging/internal/checked_file.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::store {

class CommittedDirectory;

/// The one checkpointable that foreign files are, and that `save` and `load` of one tree speak of.
inline constexpr const char* kStateName = "state";

/// One checkpointable that a source offers.
struct SourceItem {
  std::string name;
  std::string handler_id;  ///< Empty for foreign files: nobody recorded one.
  std::string directory;   ///< Empty for foreign files: they lie at the top.
};

/// Gives a load its files: those of a checkpoint, or of other programs.
///
/// Every call blocks.
/// Threads: const methods may run concurrently.
class Source {
 public:
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Returns the path that it was found by.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Returns the foreign file that `path` is; empty for folders and checkpoints.
  [[nodiscard]] const std::string& named_file() const noexcept { return named_file_; }
  [[nodiscard]] const std::vector<SourceItem>& items() const noexcept { return items_; }

  /// Returns what the names of files are relative to, for messages: the checkpoint also when `path` is one of its
  /// checkpointables, the folder also when it is a foreign file.
  [[nodiscard]] virtual const std::filesystem::path& root() const noexcept = 0;
  /// Returns the directory at `root`; null where the files lie in none.
  [[nodiscard]] virtual const io::Directory* directory() const noexcept { return nullptr; }
  /// Returns null for foreign files.
  [[nodiscard]] virtual const Manifest* manifest() const noexcept { return nullptr; }
  /// Reads the text of the manifest; empty for foreign files.
  ///
  /// Errors: Errc::checksum_mismatch, OS errors.
  [[nodiscard]] virtual std::string manifest_text() const { return {}; }
  /// Returns how long that text is.
  [[nodiscard]] virtual std::uint64_t manifest_bytes() const { return manifest_text().size(); }
  /// Returns whether that is this text.
  [[nodiscard]] virtual bool is_described_by(std::string_view text) const { return text == manifest_text(); }

  /// Returns the names of the files below `directory`, relative to it, sorted.
  [[nodiscard]] virtual std::vector<std::string> files(std::string_view directory) const = 0;
  /// Errors: Errc::not_found for a symbolic link of a foreign folder that leads to no regular file.
  [[nodiscard]] virtual std::optional<std::uint64_t> file_bytes(std::string_view relative) const = 0;
  /// Returns which rank wrote a file; nothing where one process wrote all.
  [[nodiscard]] virtual std::optional<std::uint32_t> writer_of(std::string_view /*relative*/) const {
    return std::nullopt;
  }

  /// Opens a file, with `use_direct` past a cache where there is one and that helps. The engine outlives it.
  ///
  /// Errors: Errc::not_found; those of a damaged checkpoint; OS errors.
  [[nodiscard]] virtual std::unique_ptr<io::StoredFile> open_file(io::Engine& engine,
                                                                  std::string_view relative,
                                                                  bool use_direct) const = 0;
  /// Returns whether the files lie in the memory of this machine.
  [[nodiscard]] virtual bool is_in_memory() const noexcept { return false; }
  /// Maps a file; null where that cannot be.
  ///
  /// Errors: as `open_file`; Errc::io_failure when it is shorter than recorded.
  [[nodiscard]] virtual std::shared_ptr<const std::span<const std::byte>> map_file(
      std::string_view /*relative*/) const {
    return nullptr;
  }
  /// Returns what the file must hash to; nothing for foreign files.
  ///
  /// Errors: Errc::not_found, Errc::checksum_mismatch.
  [[nodiscard]] virtual std::optional<io::FileDigest> digest(std::string_view /*relative*/) const {
    return std::nullopt;
  }

  /// Lets go of a checkpoint whose memory may become that of another. Nothing of it is read any more but through
  /// mappings that were given away, which keep it as long as they live.
  virtual void release() const noexcept {}

  /// Returns how a file is read by ranges, and verified if that is asked for. The source outlives it.
  ///
  /// Errors: Errc::not_found.
  [[nodiscard]] staging::FileToRead to_read(const std::string& relative, bool is_verified) const;
  /// Reads a whole small file, and verifies it.
  ///
  /// Errors: as `to_read`, `open_file` and `digest`; Errc::checksum_mismatch.
  [[nodiscard]] std::string read_verified(io::Engine& engine, const std::string& relative) const;

 protected:
  Source(std::filesystem::path path, std::vector<SourceItem> items, std::string named_file = {})
      : path_(std::move(path)), named_file_(std::move(named_file)), items_(std::move(items)) {}

 private:
  const std::filesystem::path path_;
  const std::string named_file_;
  const std::vector<SourceItem> items_;
};

/// Returns the checkpointables of a checkpoint.
[[nodiscard]] std::vector<SourceItem> items_of(const Manifest& manifest);

/// Makes a source of a checkpoint that is open already.
[[nodiscard]] std::shared_ptr<const Source> source_of(CommittedDirectory checkpoint);

/// Opens a committed checkpoint.
///
/// Errors: as CommittedDirectory::open.
[[nodiscard]] std::shared_ptr<const Source> open_committed_source(io::Syscalls& syscalls,
                                                                  const std::filesystem::path& path);

/// Opens a checkpoint, the directory of one of its checkpointables, a foreign folder or a foreign file. In foreign
/// folders symbolic links are followed to regular files, in checkpoints they are not. A file that lists others
/// (`x.index.json`, `x.index.fp16.json`) stands for its folder.
///
/// `known_manifest`: as CommittedDirectory::open.
/// Errors: Errc::not_found, Errc::not_committed (temporary directories), and those of a damaged checkpoint.
[[nodiscard]] std::shared_ptr<const Source> open_source(io::Syscalls& syscalls,
                                                        const std::filesystem::path& path,
                                                        const std::string& known_manifest = {});

}  // namespace cairn::store
