// SPDX-License-Identifier: Apache-2.0
#include "store/contents.hpp"

#include <system_error>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/names.hpp"

namespace cairn::store {
namespace {

constexpr std::size_t kMostReported = 10;
constexpr int kMostEmptyDepth = 128;  // Of directories that hold no file; deeper ones are not ours.

/// In the order in which they go. COMMIT proves that the rest is a checkpoint's, and vouches for the manifest, which
/// says what of the rest is its own.
constexpr std::array<std::string_view, 5> kOwnFiles = {kChunksName, kOwnerName, kUncommittedName,
                                                       kManifestName, kCommitName};

/// Returns whether there is no file below a directory, however many directories there are.
bool holds_no_file(const io::Directory& directory, int depth) {
  const std::vector<io::DirectoryEntry> entries = directory.list();
  return depth < kMostEmptyDepth &&
         std::all_of(entries.begin(), entries.end(), [&](const io::DirectoryEntry& entry) {
           return entry.kind == io::FileKind::directory &&
                  holds_no_file(directory.open_directory(entry.name), depth + 1);
         });
}

class ListedFiles {
 public:
  ListedFiles(const Manifest& manifest, const io::RemoveFile& remove)
      : remove_(remove), tables_(tables_of(manifest)) {
    for (const CheckpointableEntry& entry : manifest.checkpointables) {
      directories_.insert(entry.directory);
    }
    for (const std::string& table : tables_) {
      files_.insert(table);
      directories_.insert(kTablesName);
    }
    for (const FileEntry& entry : manifest.files) {
      const std::string_view path = entry.path;
      files_.insert(path);
      for (std::size_t at = path.find('/'); at != std::string_view::npos; at = path.find('/', at + 1)) {
        directories_.insert(path.substr(0, at));
      }
    }
  }

  Foreign remove_from(const io::Directory& directory, RemovalOrder order) && {
    remove_below(directory, "");
    if (order == RemovalOrder::durable) {
      directory.sync();
    }
    if (own_.contains(kUncommittedName) && own_.contains(kCommitName)) {
      CAIRN_PROBE("store.removes_what_is_marked_as_uncommitted");
      sync_commit(directory);  // Without the mark an empty COMMIT would be nobody's.
    }
    for (const std::string_view name : kOwnFiles) {
      if (own_.contains(name)) {
        io::remove_if_there([&] { directory.remove_file(name); });
      }
    }
    return std::move(foreign_);
  }

 private:
  static std::vector<std::string> tables_of(const Manifest& manifest) {
    std::vector<std::string> names;
    for (const auto& [rank, bytes] : chunk_tables(manifest.files)) {
      if (rank != 0) {
        names.push_back(table_name(rank));
      }
    }
    return names;
  }

  void remove_below(const io::Directory& directory, const std::string& prefix) {
    for (const io::DirectoryEntry& entry : directory.list()) {
      const std::string path = prefix + entry.name;
      if (prefix.empty() && is_own_file(entry.name) && entry.kind != io::FileKind::directory) {
        own_.insert(entry.name);
      } else if (entry.kind == io::FileKind::directory) {
        io::remove_if_there([&] { remove_directory_of(directory, entry.name, path); });
      } else if (files_.contains(path)) {
        io::remove_if_there(
            [&] { remove_ ? remove_(directory, entry.name) : directory.remove_file(entry.name); });
      } else {
        report(path);
      }
    }
  }

  void remove_directory_of(const io::Directory& parent, const std::string& name, const std::string& path) {
    const std::size_t before = foreign_.count;
    if (directories_.contains(path)) {
      remove_below(parent.open_directory(name), path + "/");
    } else if (holds_no_file(parent.open_directory(name), 0)) {
      remove_directories_below(parent.open_directory(name));
    } else {
      report(path);
    }
    if (foreign_.count == before) {
      parent.remove_empty_directory(name);
    }
  }

  static void remove_directories_below(const io::Directory& directory) {
    for (const io::DirectoryEntry& entry : directory.list()) {
      remove_directories_below(directory.open_directory(entry.name));
      directory.remove_empty_directory(entry.name);
    }
  }

  void report(std::string path) {
    CAIRN_PROBE("store.foreign_file_in_a_checkpoint");
    if (foreign_.count++ < kMostReported) {
      foreign_.paths.push_back(std::move(path));
    }
  }

  const io::RemoveFile& remove_;
  const std::vector<std::string> tables_;  // Of all ranks but rank 0.
  std::unordered_set<std::string_view> files_;
  std::unordered_set<std::string_view> directories_;
  std::set<std::string, std::less<>> own_;  // Those that are there.
  Foreign foreign_;
};

}  // namespace

std::string listed(const Foreign& foreign) {
  std::string text;
  CAIRN_ASSERT(foreign.count >= foreign.paths.size(), "no more foreign files are named than there are");
  for (const std::string& path : foreign.paths) {
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ", path);
  }
  const std::size_t others = foreign.count - foreign.paths.size();
  return others == 0 ? text : fmt::format("{} and {} more", text, others);
}

bool is_own_file(std::string_view name) noexcept {
  return std::find(kOwnFiles.begin(), kOwnFiles.end(), name) != kOwnFiles.end();
}

bool holds_only_own_files(const io::Directory& directory) {
  const std::vector<io::DirectoryEntry> entries = directory.list();
  return std::all_of(entries.begin(), entries.end(), [&](const io::DirectoryEntry& entry) {
    return entry.kind == io::FileKind::directory ? holds_no_file(directory.open_directory(entry.name), 0)
                                                 : is_own_file(entry.name);
  });
}

void sync_commit(const io::Directory& directory) {
  const io::FileHandle commit = directory.open_file(kCommitName);
  io::require(directory.syscalls().sync_data(commit.fd()), "fdatasync", directory.path() / kCommitName);
  directory.sync();
}

Foreign remove_checkpoint_files(const io::Directory& directory, const Manifest& manifest, RemovalOrder order,
                                const io::RemoveFile& remove) {
  return ListedFiles(manifest, remove).remove_from(directory, order);
}

}  // namespace cairn::store
