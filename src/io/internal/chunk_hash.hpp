// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/base/hash.hpp"

namespace cairn::io {

/// Files are hashed in chunks of this size; the last one of a file may be shorter, and is never
/// empty.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

/// How many chunks a file of `size_bytes` has.
[[nodiscard]] constexpr std::uint64_t chunk_count(std::uint64_t size_bytes) noexcept {
  return size_bytes / kChunkBytes + (size_bytes % kChunkBytes != 0 ? 1 : 0);
}

/// XXH3-64 of one chunk.
[[nodiscard]] std::uint64_t hash_chunk(std::span<const std::byte> chunk) noexcept;

/// The root of a file: XXH3-128 over its chunk hashes and then its size, each as eight
/// little-endian bytes.
///
/// Source: docs/format.md, "Integrity".
[[nodiscard]] Hash128 hash_root(std::span<const std::uint64_t> chunks, std::uint64_t size_bytes);

/// Holds what a finished file must hash to.
struct FileDigest {
  std::string path;  ///< Relative to the checkpoint, '/' between components.
  std::uint64_t size_bytes = 0;
  std::vector<std::uint64_t> chunks;

  [[nodiscard]] Hash128 root() const { return hash_root(chunks, size_bytes); }
};

/// Hashes a file whose bytes come in order, in pieces of any size.
///
/// Threads: not safe.
class ChunkHasher {
 public:
  ChunkHasher();
  ~ChunkHasher();
  ChunkHasher(ChunkHasher&&) noexcept;
  ChunkHasher& operator=(ChunkHasher&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// The digest of all that came, under `path`. The hasher is empty afterwards.
  [[nodiscard]] FileDigest finish(std::string path);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/// Calls `visit(index, chunk)` for each chunk of `data`, bytes of a file from `offset_bytes` on, where a chunk
/// begins. The last one may be short: the file ends there.
template <class Visit>
void for_each_chunk(std::uint64_t offset_bytes, std::span<const std::byte> data, Visit visit) {
  for (std::uint64_t index = offset_bytes / kChunkBytes; !data.empty(); ++index) {
    const std::size_t size = data.size() < kChunkBytes ? data.size() : kChunkBytes;
    visit(index, data.first(size));
    data = data.subspan(size);
  }
}

/// Compares whole chunks of the file at `path`, those that `data` is from `offset_bytes` on, with what they must hash
/// to.
///
/// Errors: Errc::checksum_mismatch naming the file, the chunk and its range.
void verify_chunks(std::string_view path, std::uint64_t offset_bytes, std::span<const std::byte> data,
                   const FileDigest& digest);

}  // namespace cairn::io
