// SPDX-License-Identifier: Apache-2.0
#include "core/other_files.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::core {
namespace {

/// Removal goes no deeper: a checkpoint that nobody can remove must not be made. Each level holds a descriptor.
constexpr int kMostLevels = 100;

class OtherFiles {
 public:
  explicit OtherFiles(const std::map<std::string, io::FileDigest>& written) : written_(written) {}

  void visit(const io::Directory& directory, const std::string& prefix, int level) {
    if (level > kMostLevels) {
      throw Error(Errc::handler_failed,
                  fmt::format("'{}' was written by a handler and lies more than {} directories deep", prefix,
                              kMostLevels));
    }
    for (const io::DirectoryEntry& entry : directory.list()) {
      const std::string relative = prefix + entry.name;
      if (entry.kind == io::FileKind::directory) {
        visit(directory.open_directory(entry.name), relative + "/", level + 1);
        continue;
      }
      if (prefix.empty() || written_.contains(relative)) {
        continue;  // Above the checkpointables' directories there is only what the commit itself keeps.
      }
      if (entry.kind != io::FileKind::regular) {
        throw Error(Errc::handler_failed,
                    fmt::format("'{}' was written by a handler and is not a regular file", relative));
      }
      digests_.push_back(digest(directory, entry.name, relative));
    }
  }

  [[nodiscard]] std::vector<io::FileDigest> take() { return std::move(digests_); }

 private:
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
    return hasher.finish(relative);
  }

  static std::uint64_t size_of(const io::FileHandle& file, const std::filesystem::path& path) {
    io::FileStatus status;
    if (const int result = file.syscalls().status(file.fd(), status); result < 0) {
      throw_errno(-result, "stat", path);
    }
    return status.size_bytes;
  }

  const std::map<std::string, io::FileDigest>& written_;
  std::vector<std::byte> buffer_;
  std::vector<io::FileDigest> digests_;
};

}  // namespace

std::vector<io::FileDigest> digest_other_files(const io::Directory& staged,
                                               const std::map<std::string, io::FileDigest>& written) {
  OtherFiles others(written);
  others.visit(staged, "", 0);
  return others.take();
}

}  // namespace cairn::core
