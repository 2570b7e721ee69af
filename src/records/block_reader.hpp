// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cairn/base/error.hpp"

#include "io/internal/file.hpp"
#include "records/layout.hpp"

namespace cairn::records {

/// A chunk, and how far it has been read.
struct Chunk {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;       ///< 0: no header has said it yet.
  std::uint64_t position = 0;  ///< Behind what has been read.
  ChunkHeader header;
};

/// Reads chunks without the headers of blocks that lie between their bytes. Each of these is verified, and must agree
/// with the chunk. Copies share the file.
class BlockReader {
 public:
  BlockReader(io::Syscalls& syscalls, const std::filesystem::path& path);
  explicit BlockReader(Bytes memory);

  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return bytes_; }
  /// Refuses what does not begin as files of records do.
  void check_signature() const;

  /// Reads the header of the chunk that begins at `begin`. It ends within the file.
  [[nodiscard]] Chunk chunk_at(std::uint64_t begin) const;
  /// Appends so many more bytes of the chunk to a string; it has them. Memory is taken at once.
  void append(Chunk& chunk, std::uint64_t bytes, std::string& out) const;
  /// Verifies the headers of blocks in what has not been read of the chunk.
  void verify_rest(Chunk& chunk) const;
  /// Reads the header of a block, at a multiple of `kBlockBytes`. Its chunk lies within the file.
  [[nodiscard]] BlockHeader block_header(std::uint64_t position) const;

  /// Throws an error that names the file and a position.
  [[noreturn]] void fail(Errc code, std::uint64_t position, std::string_view reason) const;

 private:
  void read(std::span<char> out, std::uint64_t position) const;
  [[nodiscard]] BlockHeader decoded(std::string_view bytes, std::uint64_t position) const;
  void require_same(Chunk& chunk, const BlockHeader& header, std::uint64_t position) const;

  std::shared_ptr<const io::FileHandle> file_;  // Null: `memory_` is read.
  std::filesystem::path path_;
  Bytes memory_;
  std::uint64_t bytes_ = 0;
};

}  // namespace cairn::records
