// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/base/error.hpp"

#include "io/internal/file.hpp"
#include "records/layout.hpp"

namespace cairn::records {

/// Where a chunk lies. Before its own header has been read a block's may say where it ends.
struct ChunkRange {
  std::uint64_t begin = 0;
  std::optional<std::uint64_t> end;
};

/// Reads the bytes of chunks, without the headers of blocks that lie between them. Each of these is verified, and must
/// agree with the chunk.
class BlockReader {
 public:
  BlockReader(io::Syscalls& syscalls, const std::filesystem::path& path);
  explicit BlockReader(Bytes memory);

  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return bytes_; }

  /// Fills `out` with the bytes of a chunk from `position` on, which is no place within the header of a block. Returns
  /// the position behind them. All must lie within the file.
  std::uint64_t read(ChunkRange& chunk, std::uint64_t position, std::span<std::byte> out) const;
  /// The same, to the end of a string: it grows as bytes come, but for the room, which is taken at once.
  std::uint64_t append(ChunkRange& chunk, std::uint64_t position, std::uint64_t bytes,
                       std::string& out) const;
  /// Verifies the headers of blocks in `[position, chunk.end)`.
  void verify_rest(ChunkRange& chunk, std::uint64_t position) const;

  /// Reads the header of a block, at a multiple of `kBlockBytes` that lies within the file.
  [[nodiscard]] BlockHeader block_header(std::uint64_t position) const;
  /// Reads the header of the chunk that begins at `chunk.begin`, sets where that ends, and moves `position` behind the
  /// header. The end lies within the file.
  [[nodiscard]] ChunkHeader chunk_header(ChunkRange& chunk, std::uint64_t& position) const;

  /// Throws an error that names the file and a position.
  [[noreturn]] void fail(Errc code, std::uint64_t position, std::string_view reason) const;

 private:
  void read_raw(std::span<std::byte> out, std::uint64_t position) const;
  void check_block_header(ChunkRange& chunk, std::uint64_t position,
                          std::span<const std::byte, kBlockHeaderBytes> bytes) const;
  [[nodiscard]] BlockHeader decoded(std::span<const std::byte, kBlockHeaderBytes> bytes,
                                    std::uint64_t position) const;

  io::FileHandle file_;
  std::filesystem::path path_;
  Bytes memory_;
  std::uint64_t bytes_ = 0;
};

}  // namespace cairn::records
