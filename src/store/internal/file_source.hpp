// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/base/hash.hpp"

#include "io/internal/file.hpp"
#include "store/internal/committed_directory.hpp"

namespace cairn::store {

/// The one checkpointable that foreign files are, and that `save` and `load` of one tree speak of.
inline constexpr const char* kStateName = "state";

/// One checkpointable that a source offers.
struct SourceItem {
  std::string name;
  std::string handler_id;  ///< Empty for foreign files: nobody recorded one.
  std::string directory;   ///< Empty for foreign files: they lie at the top.
};

/// Where the files of a load come from: a committed checkpoint, or files of other programs.
///
/// Every call blocks.
/// Threads: const methods may run concurrently.
class FileSource {
 public:
  /// Opens a checkpoint, the directory of one of its checkpointables, a foreign folder or a foreign file. In foreign
  /// folders symbolic links are followed to regular files, in checkpoints they are not. A file that lists others
  /// (`x.index.json`, `x.index.fp16.json`) stands for its folder.
  ///
  /// `known_manifest`: as CommittedDirectory::open.
  /// Errors: Errc::not_found, Errc::not_committed (temporary directories), and those of a damaged checkpoint.
  static std::shared_ptr<const FileSource> open(io::Syscalls& syscalls, const std::filesystem::path& path,
                                                const std::string& known_manifest = {});

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Returns what the names of files are relative to: the checkpoint also when `path` is one of its
  /// checkpointables, the folder also when it is a foreign file.
  [[nodiscard]] const std::filesystem::path& root() const noexcept {
    return committed_ ? committed_->path() : foreign_->path();
  }
  /// The foreign file that `path` is; empty for folders and checkpoints.
  [[nodiscard]] const std::string& named_file() const noexcept { return named_file_; }
  /// Null for foreign files.
  [[nodiscard]] const Manifest* manifest() const noexcept {
    return committed_ ? &committed_->manifest() : nullptr;
  }
  /// Reads the text of checkpoint.json; empty for foreign files.
  ///
  /// Errors: as CommittedDirectory::manifest_text.
  [[nodiscard]] std::string manifest_text() const {
    return committed_ ? committed_->manifest_text() : std::string();
  }
  /// Returns whether that is this text.
  [[nodiscard]] bool is_described_by(std::string_view text) const noexcept {
    return committed_ ? committed_->commit().manifest_hash == hash_text(text) : text.empty();
  }
  [[nodiscard]] const std::vector<SourceItem>& items() const noexcept { return items_; }

  /// Names of the files below `directory`, relative to it, sorted.
  [[nodiscard]] std::vector<std::string> files(std::string_view directory) const;
  /// Errors: Errc::not_found for a symbolic link of a foreign folder that leads to no regular file.
  [[nodiscard]] std::optional<std::uint64_t> file_bytes(std::string_view relative) const;

  /// Which rank wrote a file; nothing where one process wrote all.
  [[nodiscard]] std::optional<std::uint32_t> writer_of(std::string_view relative) const;

  [[nodiscard]] io::FileHandle open_file(std::string_view relative, int flags) const;
  /// Returns what the file must hash to; nothing for foreign files.
  [[nodiscard]] std::optional<io::FileDigest> digest(std::string_view relative) const;

 private:
  FileSource() = default;

  static std::shared_ptr<const FileSource> open_item(io::Syscalls& syscalls,
                                                     const std::filesystem::path& path,
                                                     const std::string& known_manifest);
  static std::shared_ptr<const FileSource> open_foreign(io::Syscalls& syscalls,
                                                        const std::filesystem::path& path);

  /// Enters a file of a foreign folder, if it is one.
  void add_foreign(const std::string& name);
  /// Enters all of them.
  ///
  /// Errors: Errc::not_committed for a folder of checkpoints.
  void add_folder();
  /// Enters a symbolic link of a foreign folder, as the cache of Hugging Face is made of them.
  void add_link(const std::string& name);

  std::filesystem::path path_;
  std::string named_file_;
  std::optional<CommittedDirectory> committed_;
  std::optional<io::Directory> foreign_;
  std::map<std::string, std::uint64_t, std::less<>> foreign_files_;
  std::set<std::string, std::less<>> links_;  // Those of the files that are behind symbolic links.
  std::map<std::string, std::string, std::less<>> broken_links_;  // With what is wrong with them.
  std::vector<SourceItem> items_;
};

}  // namespace cairn::store
