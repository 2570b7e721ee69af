// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::records {

using Bytes = std::span<const std::byte>;

inline Bytes bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

// Source: docs/format.md, "Records files".
inline constexpr std::uint64_t kBlockBytes = 65536;
inline constexpr std::uint64_t kBlockHeaderBytes = 24;
inline constexpr std::uint64_t kChunkHeaderBytes = 40;
inline constexpr std::uint64_t kUsableBlockBytes = kBlockBytes - kBlockHeaderBytes;
inline constexpr std::uint64_t kSignatureBytes = kBlockHeaderBytes + kChunkHeaderBytes;
inline constexpr std::uint64_t kMostRecordsOfChunk = (std::uint64_t{1} << 56) - 1;

/// The kind of a chunk, as its header says.
namespace chunk_type {
inline constexpr char kSignature = 's';
inline constexpr char kMetadata = 'm';
inline constexpr char kPadding = 'p';
inline constexpr char kSimple = 'r';
inline constexpr char kTransposed = 't';
}  // namespace chunk_type

/// Lies at every multiple of `kBlockBytes`: in front of the chunk that begins there, or within the one that goes on.
struct BlockHeader {
  std::uint64_t previous_chunk = 0;  ///< From where that chunk begins to here.
  std::uint64_t next_chunk = 0;      ///< From here to where it ends.
};

struct ChunkHeader {
  std::uint64_t data_bytes = 0;
  std::uint64_t data_hash = 0;
  char type = 0;
  std::uint64_t records = 0;
  std::uint64_t decoded_bytes = 0;
};

/// HighwayHash-64 with riegeli's key, of what the fragments are together.
///
/// Errors: Errc::feature_missing where this library was built without HighwayHash; `require_hash` throws it beforehand.
[[nodiscard]] std::uint64_t hash(std::span<const Bytes> fragments);
[[nodiscard]] std::uint64_t hash(Bytes bytes);
void require_hash();

[[nodiscard]] std::string encode(const BlockHeader& header);
[[nodiscard]] std::string encode(const ChunkHeader& header);
/// The block's header and the chunk that every file begins with.
[[nodiscard]] std::string signature();

/// Returns nothing when the hash in front of a header is not that of the header.
[[nodiscard]] std::optional<BlockHeader> decode_block_header(std::string_view bytes);
[[nodiscard]] std::optional<ChunkHeader> decode_chunk_header(std::string_view bytes);

/// Returns whether a chunk can begin there: not within the header of a block, nor right behind it.
[[nodiscard]] constexpr bool is_chunk_boundary(std::uint64_t position) noexcept {
  return (0 - position) % kBlockBytes < kUsableBlockBytes;
}

/// Returns where `bytes` of a chunk end that begin at `begin`, with the headers of the blocks between them.
[[nodiscard]] constexpr std::uint64_t end_with_headers(std::uint64_t begin, std::uint64_t bytes) noexcept {
  return begin + bytes +
         (bytes + (begin + kUsableBlockBytes - 1) % kBlockBytes) / kUsableBlockBytes * kBlockHeaderBytes;
}

/// Returns where a chunk ends that begins at `begin`. Nothing when that is beyond 2^62: no file is so large.
[[nodiscard]] constexpr std::optional<std::uint64_t> chunk_end(std::uint64_t begin,
                                                               const ChunkHeader& header) noexcept {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  if (begin > kMost || header.data_bytes > kMost) {
    return std::nullopt;
  }
  // Each record has a position of its own, so a chunk of many small ones is followed by zeros.
  std::uint64_t positions_end = begin + header.records;
  if (!is_chunk_boundary(positions_end)) {
    positions_end += (0 - positions_end) % kBlockBytes - (kUsableBlockBytes - 1);
  }
  return std::max(end_with_headers(begin, kChunkHeaderBytes + header.data_bytes), positions_end);
}

/// Appends a number as LEB128.
void append_varint(std::string& text, std::uint64_t number);
/// Takes such a number from the front. Returns nothing when it does not end, or does not fit.
[[nodiscard]] std::optional<std::uint64_t> take_varint(std::string_view& text) noexcept;

}  // namespace cairn::records
