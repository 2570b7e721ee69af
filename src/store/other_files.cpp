// SPDX-License-Identifier: Apache-2.0
#include "store/internal/other_files.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "io/internal/check.hpp"

namespace cairn::store {
namespace {

/// Removal goes no deeper: a checkpoint that nobody can remove must not be made. Each level holds a descriptor.
constexpr int kMostLevels = 100;

class OtherFiles {
 public:
  /// `use` is called for each file that is not `left_out`: with its directory, its name there, and its path.
  using Use = std::function<void(const io::Directory&, const std::string&, const std::string&)>;

  OtherFiles(std::function<bool(const std::string&)> is_left_out, Use use)
      : is_left_out_(std::move(is_left_out)), use_(std::move(use)) {}

  void visit(const io::Directory& directory, const std::string& prefix, int level) {
    if (level > kMostLevels) {
      throw Error(Errc::handler_failed,
                  fmt::format("'{}' was written by a handler and lies more than {} directories deep", prefix,
                              kMostLevels));
    }
    for (const io::DirectoryEntry& entry : directory.list()) {
      const std::string relative = prefix + entry.name;
      if (entry.kind == io::FileKind::directory) {
        if (!prefix.empty() || !is_left_out_(relative)) {
          visit(directory.open_directory(entry.name), relative + "/", level + 1);
        }
        continue;
      }
      if (prefix.empty() || is_left_out_(relative)) {
        continue;  // Above the checkpointables' directories there is only what the commit itself keeps.
      }
      if (entry.kind != io::FileKind::regular) {
        throw Error(Errc::handler_failed,
                    fmt::format("'{}' was written by a handler and is not a regular file", relative));
      }
      use_(directory, entry.name, relative);
    }
  }

 private:
  const std::function<bool(const std::string&)> is_left_out_;
  const Use use_;
};

/// Hashes files one after the other, with one buffer.
class Digester {
 public:
  io::FileDigest digest(const io::Directory& directory, const std::string& name,
                        const std::string& relative) {
    const io::FileHandle file = directory.open_file(name);
    const std::filesystem::path path = directory.path() / name;
    const std::uint64_t bytes = size_of(file, path);
    buffer_.resize(io::kChunkBytes);
    io::ChunkHasher hasher;
    // As many bytes as there were at first, or a file that keeps growing would never end.
    for (std::uint64_t offset = 0; offset < bytes; offset += io::kChunkBytes) {
      const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(io::kChunkBytes, bytes - offset));
      const auto data = std::span(buffer_).first(part);
      io::read_all(file, data, offset, path);
      hasher.update(data);
    }
    if (const int synced = file.syscalls().sync(file.fd()); synced < 0) {
      throw_errno(-synced, "fsync", path);
    }
    if (const std::uint64_t now = size_of(file, path); now != bytes) {
      throw Error(
          Errc::handler_failed,
          fmt::format("'{}' is still being written: it had {} bytes, and now has {}", relative, bytes, now));
    }
    io::FileDigest digest = hasher.finish(relative);
    CAIRN_ASSERT(digest.size_bytes == bytes, "a file that is hashed is hashed whole");
    return digest;
  }

 private:
  static std::uint64_t size_of(const io::FileHandle& file, const std::filesystem::path& path) {
    io::FileStatus status;
    if (const int result = io::uninterrupted([&] { return file.syscalls().status(file.fd(), status); });
        result < 0) {
      throw_errno(-result, "stat", path);
    }
    return status.size_bytes;
  }

  std::vector<std::byte> buffer_;
};

}  // namespace

std::vector<io::FileDigest> digest_other_files(const io::Directory& staged,
                                               const std::map<std::string, io::FileDigest>& written,
                                               const std::set<std::string, std::less<>>& skipped) {
  std::vector<io::FileDigest> digests;
  Digester digester;
  OtherFiles others([&](const std::string& path) { return written.contains(path) || skipped.contains(path); },
                    [&](const io::Directory& directory, const std::string& name, const std::string& path) {
                      digests.push_back(digester.digest(directory, name, path));
                    });
  others.visit(staged, "", 0);
  return digests;
}

io::FileDigest digest_other_file(const io::Directory& staged, const std::string& relative) {
  return Digester().digest(staged, relative, relative);
}

std::vector<std::string> unknown_files(const io::Directory& staged, const std::string& directory,
                                       const std::set<std::string, std::less<>>& known) {
  std::vector<std::string> unknown;
  OtherFiles others(
      [&](const std::string& path) { return known.contains(path); },
      [&](const io::Directory&, const std::string&, const std::string& path) { unknown.push_back(path); });
  others.visit(staged.open_directory(directory), directory + "/", 1);
  return unknown;
}

}  // namespace cairn::store
