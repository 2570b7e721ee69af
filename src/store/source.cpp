// SPDX-License-Identifier: Apache-2.0
#include "store/internal/source.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/hash.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/disk_file.hpp"
#include "io/internal/mapped_file.hpp"
#include "store/commit_record.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/names.hpp"

namespace cairn::store {
namespace {

/// A source whose files lie in a directory.
class DirectorySource : public Source {
 public:
  /// `files` is the directory that they lie in.
  DirectorySource(std::filesystem::path path, std::vector<SourceItem> items, const io::Directory& files,
                  std::string named_file = {})
      : Source(std::move(path), std::move(items), std::move(named_file)),
        is_in_memory_(lies_in_memory(files.syscalls(), files.fd())) {}

  [[nodiscard]] const std::filesystem::path& root() const noexcept final { return directory()->path(); }
  [[nodiscard]] std::unique_ptr<io::StoredFile> open_file(io::Engine& engine, std::string_view relative,
                                                          bool use_direct) const final {
    const auto open = [&](int flags) { return open_descriptor(relative, flags); };
    const std::uint64_t bytes = file_bytes(relative).value_or(0);  // The open says that it is missing.
    return std::make_unique<io::DiskFile>(engine, root() / relative, bytes, use_direct, open,
                                          is_in_memory_ && !is_elsewhere(relative));
  }
  [[nodiscard]] bool is_in_memory() const noexcept final { return is_in_memory_; }
  [[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map_file(
      std::string_view relative) const override {
    return io::map_file(open_descriptor(relative, 0), file_bytes(relative).value_or(0), root() / relative);
  }

 private:
  [[nodiscard]] virtual io::FileHandle open_descriptor(std::string_view relative, int flags) const = 0;
  /// Returns whether a file may lie on another file system than its directory.
  [[nodiscard]] virtual bool is_elsewhere(std::string_view /*relative*/) const noexcept { return false; }

  const bool is_in_memory_;
};

/// In a memory of images it holds the checkpoint, whose files could else become those of another one while it is read;
/// so do the mappings that it gives away.
class CommittedSource final : public DirectorySource {
 public:
  /// Offers these of its checkpointables.
  ///
  /// Errors: Errc::not_found: somebody is about to remove it.
  CommittedSource(std::filesystem::path path, CommittedDirectory checkpoint, std::vector<SourceItem> items)
      : DirectorySource(std::move(path), std::move(items), checkpoint.directory()),
        checkpoint_(std::move(checkpoint)),
        may_be_reused_(may_be_reused(checkpoint_.directory())) {
    if (may_be_reused_) {
      hold_ = std::make_shared<const CheckpointHold>(checkpoint_.directory());
      if (!hold_->is_held() || checkpoint_.directory().is_replaced()) {
        throw Error(Errc::not_found, fmt::format("{} is being removed or replaced", root().string()));
      }
    }
  }

  [[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map_file(
      std::string_view relative) const override {
    const auto held = std::make_shared<HeldMapping>(hold(), DirectorySource::map_file(relative));
    return {held, held->second.get()};
  }
  void release() const noexcept override {
    const MutexLock lock(mutex_);
    hold_.reset();
  }

  [[nodiscard]] const io::Directory* directory() const noexcept override { return &checkpoint_.directory(); }
  [[nodiscard]] const Manifest* manifest() const noexcept override { return &checkpoint_.manifest(); }
  [[nodiscard]] std::string manifest_text() const override { return checkpoint_.manifest_text(); }
  [[nodiscard]] std::uint64_t manifest_bytes() const override { return checkpoint_.commit().manifest_bytes; }
  [[nodiscard]] bool is_described_by(std::string_view text) const override {
    return checkpoint_.commit().manifest_hash == hash_text(text);
  }
  [[nodiscard]] std::vector<std::string> files(std::string_view directory) const override {
    return checkpoint_.files_below(directory);
  }
  [[nodiscard]] std::optional<std::uint64_t> file_bytes(std::string_view relative) const override {
    const FileEntry* entry = checkpoint_.find(relative);
    return entry == nullptr ? std::nullopt : std::optional(entry->size_bytes);
  }
  [[nodiscard]] std::optional<std::uint32_t> writer_of(std::string_view relative) const override {
    const FileEntry* entry = checkpoint_.manifest().world_size < 2 ? nullptr : checkpoint_.find(relative);
    return entry == nullptr ? std::nullopt : std::optional(entry->rank);
  }
  [[nodiscard]] std::optional<io::FileDigest> digest(std::string_view relative) const override {
    return checkpoint_.digest(relative);
  }

 private:
  using HeldMapping =
      std::pair<std::shared_ptr<const CheckpointHold>, std::shared_ptr<const std::span<const std::byte>>>;

  [[nodiscard]] io::FileHandle open_descriptor(std::string_view relative, int flags) const override {
    return checkpoint_.open_file(relative, flags);
  }

  /// Errors: Errc::closed: it was let go.
  [[nodiscard]] std::shared_ptr<const CheckpointHold> hold() const {
    const MutexLock lock(mutex_);
    if (may_be_reused_ && !hold_) {
      throw Error(Errc::closed, fmt::format("{} is not read any more", root().string()));
    }
    return hold_;
  }

  const CommittedDirectory checkpoint_;
  const bool may_be_reused_;  // Else its files never change, and nobody holds it.
  mutable Mutex mutex_;
  mutable std::shared_ptr<const CheckpointHold> hold_ CAIRN_GUARDED_BY(mutex_);
};

/// Returns whether a directory is a checkpoint, sound or not; what may not be looked into is not.
bool holds_checkpoint(const io::Directory& parent, const std::string& name) {
  try {
    return has_commit(parent.open_directory(name));
  } catch (const Error&) {
    return false;
  }
}

/// Returns whether a file of others says by its name that it lists the files of a model.
bool lists_others(const std::string& name) {
  return name.ends_with(".json") && name.find(".index.") != std::string::npos;
}

class ForeignSource final : public DirectorySource {
 public:
  /// Errors: as `open_source`.
  static std::shared_ptr<const Source> open(io::Syscalls& syscalls, const std::filesystem::path& path);

  /// `named_file` is empty where `path` is the folder.
  ForeignSource(std::filesystem::path path, io::Directory folder, std::string named_file)
      : DirectorySource(std::move(path), {{kStateName, "", ""}}, folder, std::move(named_file)),
        folder_(std::move(folder)) {}

  [[nodiscard]] const io::Directory* directory() const noexcept override { return &folder_; }
  [[nodiscard]] std::vector<std::string> files(std::string_view /*directory*/) const override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files_) {
      names.push_back(name);
    }
    return names;
  }
  [[nodiscard]] std::optional<std::uint64_t> file_bytes(std::string_view relative) const override;

 private:
  [[nodiscard]] io::FileHandle open_descriptor(std::string_view relative, int flags) const override {
    return links_.contains(relative) ? folder_.open_linked_file(relative, flags)
                                     : folder_.open_file(relative, flags);
  }
  [[nodiscard]] bool is_elsewhere(std::string_view relative) const noexcept override {
    return links_.contains(relative);
  }

  /// Enters a file of the folder, if it is one.
  void add(const std::string& name);
  /// Enters all of them.
  ///
  /// Errors: Errc::not_committed for a folder of checkpoints.
  void add_folder();
  /// Enters a symbolic link of the folder, as the cache of Hugging Face is made of them.
  void add_link(const std::string& name);

  const io::Directory folder_;
  std::map<std::string, std::uint64_t, std::less<>> files_;
  std::set<std::string, std::less<>> links_;                      // Files that symbolic links lead to.
  std::map<std::string, std::string, std::less<>> broken_links_;  // With what is wrong with them.
};

std::shared_ptr<const Source> ForeignSource::open(io::Syscalls& syscalls, const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  const bool is_list = !is_directory && lists_others(path.filename().string());
  io::Directory folder = is_directory ? io::Directory::open(syscalls, path)
                         : is_list    ? io::Directory::open(syscalls, path.parent_path())
                                      : io::Directory::enter(syscalls, path.parent_path());
  const auto source = std::make_shared<ForeignSource>(
      path, std::move(folder), is_directory ? std::string() : path.filename().string());
  if (!is_directory) {
    source->add(source->named_file());
    if (const auto broken = source->broken_links_.begin(); broken != source->broken_links_.end()) {
      throw Error(Errc::not_found, broken->second);
    }
    if (source->files_.empty()) {
      throw Error(Errc::not_found, fmt::format("{} is not a regular file", path.string()));
    }
  }
  if (is_directory || is_list) {
    source->add_folder();
  }
  return source;
}

void ForeignSource::add_folder() {
  for (const io::DirectoryEntry& entry : folder_.list()) {
    if (named_file().empty() && entry.kind == io::FileKind::directory &&
        holds_checkpoint(folder_, entry.name)) {
      throw Error(Errc::not_committed, fmt::format("{} is not a checkpoint, it holds some, such as '{}'",
                                                   path().string(), entry.name));
    }
    add(entry.name);
  }
}

void ForeignSource::add(const std::string& name) {
  const auto status = folder_.status(name);
  if (status && status->kind == io::FileKind::regular) {
    files_.emplace(name, status->size_bytes);
  } else if (status && status->kind == io::FileKind::symlink) {
    add_link(name);
  }
}

void ForeignSource::add_link(const std::string& name) {
  try {
    const io::FileHandle file = folder_.open_linked_file(name);
    io::FileStatus status;
    if (const int result = io::uninterrupted([&] { return file.syscalls().status(file.fd(), status); });
        result < 0) {
      throw_errno(-result, "stat", path() / name);
    }
    files_.emplace(name, status.size_bytes);
    links_.insert(name);
  } catch (const Error& error) {
    broken_links_.emplace(
        name, error.detail());  // Thrown when it is requested; most folders have links that are never read.
  }
}

std::optional<std::uint64_t> ForeignSource::file_bytes(std::string_view relative) const {
  if (const auto broken = broken_links_.find(relative); broken != broken_links_.end()) {
    throw Error(Errc::not_found, broken->second);
  }
  const auto found = files_.find(relative);
  return found == files_.end() ? std::nullopt : std::optional(found->second);
}

[[noreturn]] void throw_not_committed(const std::filesystem::path& path) {
  throw Error(Errc::not_committed,
              fmt::format("{} is a temporary directory, not a committed checkpoint", path.string()));
}

/// Nothing for what is no checkpoint.
std::optional<CommittedDirectory> open_if_committed(io::Syscalls& syscalls, const std::filesystem::path& path,
                                                    const std::string& known_manifest) {
  try {
    return CommittedDirectory::open(syscalls, path, known_manifest);
  } catch (const Error& error) {
    CAIRN_PROBE("store.not_a_checkpoint");
    // A directory with a manifest is a checkpoint that lost its COMMIT, not a folder of somebody else's.
    std::error_code ignored;
    if (error.code() != Errc::not_committed || std::filesystem::exists(path / kManifestName, ignored)) {
      throw;
    }
    return std::nullopt;
  }
}

/// Null for what is not the directory of a checkpointable.
std::shared_ptr<const Source> open_item(io::Syscalls& syscalls, const std::filesystem::path& path,
                                        const std::string& known_manifest) {
  std::optional<CommittedDirectory> checkpoint;
  try {
    checkpoint.emplace(CommittedDirectory::open(syscalls, path.parent_path(), known_manifest));
  } catch (const Error& error) {
    // A user who may not look into a directory may be given what is in it.
    if (error.code() == Errc::not_committed || error.code() == Errc::not_found ||
        error.code() == std::errc::permission_denied) {
      return nullptr;
    }
    throw;
  }
  std::vector<SourceItem> items = items_of(checkpoint->manifest());
  std::erase_if(items, [&path](const SourceItem& item) { return item.directory != path.filename(); });
  CAIRN_ASSERT(items.size() <= 1, "a directory belongs to one checkpointable");
  return items.empty() ? nullptr
                       : std::make_shared<CommittedSource>(path, std::move(*checkpoint), std::move(items));
}

}  // namespace

staging::FileToRead Source::to_read(const std::string& relative, bool is_verified) const {
  const std::optional<std::uint64_t> bytes = file_bytes(relative);
  if (!bytes) {
    throw Error(Errc::not_found, fmt::format("{} has no file '{}'", root().string(), relative));
  }
  staging::FileToRead file;
  file.name = relative;
  file.path = root() / relative;
  file.size_bytes = *bytes;
  if (const auto rank = writer_of(relative)) {
    file.origin = fmt::format(" (written by rank {})", *rank);
  }
  file.open = [this, relative](io::Engine& engine, bool use_direct) {
    return open_file(engine, relative, use_direct);
  };
  if (is_verified && manifest() != nullptr) {
    file.digest = [this, relative] { return digest(relative); };
  }
  return file;
}

std::string Source::read_verified(io::Engine& engine, const std::string& relative) const {
  const staging::FileToRead file = to_read(relative, true);
  std::string text(static_cast<std::size_t>(file.size_bytes), '\0');
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(text));
  file.open(engine, false)->read_now(0, bytes);
  if (const auto digest = file.digest ? file.digest() : std::nullopt) {
    io::verify_chunks(file.path.string(), 0, bytes, *digest);
  }
  return text;
}

std::vector<SourceItem> items_of(const Manifest& manifest) {
  std::vector<SourceItem> items;
  for (const CheckpointableEntry& entry : manifest.checkpointables) {
    items.push_back({entry.name, entry.handler_id, entry.directory});
  }
  return items;
}

std::shared_ptr<const Source> source_of(CommittedDirectory checkpoint) {
  std::vector<SourceItem> items = items_of(checkpoint.manifest());
  std::filesystem::path found = checkpoint.path();
  return std::make_shared<CommittedSource>(std::move(found), std::move(checkpoint), std::move(items));
}

std::shared_ptr<const Source> open_committed_source(io::Syscalls& syscalls,
                                                    const std::filesystem::path& path) {
  return source_of(CommittedDirectory::open(syscalls, path));
}

std::shared_ptr<const Source> open_source(io::Syscalls& syscalls, const std::filesystem::path& given,
                                          const std::string& known_manifest) {
  const std::filesystem::path path = io::named_path(std::filesystem::absolute(given));
  if (std::optional<CommittedDirectory> checkpoint = open_if_committed(syscalls, path, known_manifest)) {
    return source_of(std::move(*checkpoint));
  }
  if (has_reserved_prefix(path.filename().string()) ||
      has_reserved_prefix(path.parent_path().filename().string())) {
    throw_not_committed(path);
  }
  if (auto item = open_item(syscalls, path, known_manifest)) {
    return item;
  }
  return ForeignSource::open(syscalls, path);
}

}  // namespace cairn::store
