// SPDX-License-Identifier: Apache-2.0
#include "records/block_reader.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/internal/checked.hpp"
#include "io/internal/check.hpp"
#include "records/internal/records.hpp"

namespace cairn::records {

std::optional<RegularFile> open_regular(io::Syscalls& syscalls, const std::filesystem::path& path) {
  io::require_path(path);
  // O_NONBLOCK: the open of a FIFO would wait for a writer.
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  const int fd = io::uninterrupted([&] { return syscalls.open_at(AT_FDCWD, path.c_str(), flags, 0); });
  if (fd == -ENOENT) {
    return std::nullopt;
  }
  RegularFile file{io::FileHandle(syscalls, io::require(fd, "open", path)), 0};
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return syscalls.status(fd, status); }), "stat", path);
  if (status.kind != io::FileKind::regular) {
    throw Error(Errc::malformed_metadata, fmt::format("{} is not a regular file", path.string()));
  }
  file.size_bytes = status.size_bytes;
  return file;
}

BlockReader::BlockReader(io::Syscalls& syscalls, const std::filesystem::path& path) : path_(path) {
  std::optional<RegularFile> file = open_regular(syscalls, path);
  if (!file) {
    throw Error(Errc::not_found, path.string());
  }
  bytes_ = file->size_bytes;
  file_ = std::make_shared<const io::FileHandle>(std::move(file->handle));
}

BlockReader::BlockReader(Bytes memory) : memory_(memory), bytes_(memory.size()) {}

void BlockReader::fail(Errc code, std::uint64_t position, std::string_view reason) const {
  throw Error(code,
              fmt::format("{} at {}: {}", file_ ? path_.string() : "records in memory", position, reason));
}

void BlockReader::read(std::span<char> out, std::uint64_t position) const {
  if (file_) {
    io::read_all(*file_, std::as_writable_bytes(out), position, path_);
  } else if (!out.empty()) {
    std::memcpy(out.data(), memory_.data() + position, out.size());
  }
}

void BlockReader::check_signature() const {
  require_hash();
  std::string bytes(kSignatureBytes, '\0');
  read(std::span(bytes).first(static_cast<std::size_t>(std::min(kSignatureBytes, bytes_))), 0);
  if (bytes != signature()) {
    fail(Errc::malformed_metadata, 0, "this is not a riegeli/records file: the signature is missing");
  }
}

BlockHeader BlockReader::decoded(std::string_view bytes, std::uint64_t position) const {
  const std::optional<BlockHeader> header = decode_block_header(bytes);
  if (!header) {
    fail(Errc::checksum_mismatch, position, "the hash of the block's header is another");
  }
  if (header->previous_chunk > position || header->next_chunk > bytes_ - position) {
    fail(Errc::malformed_metadata, position, "the block's header says that its chunk lies outside the file");
  }
  return *header;
}

BlockHeader BlockReader::block_header(std::uint64_t position) const {
  if (bytes_ - position < kBlockHeaderBytes) {
    fail(Errc::malformed_metadata, position, "the file ends within the header of a block");
  }
  std::string bytes(kBlockHeaderBytes, '\0');
  read(bytes, position);
  return decoded(bytes, position);
}

void BlockReader::require_same(Chunk& chunk, const BlockHeader& header, std::uint64_t position) const {
  const std::uint64_t begin = position - header.previous_chunk;
  const std::uint64_t end = position + header.next_chunk;
  if (begin != chunk.begin || (chunk.end > 0 && end != chunk.end)) {
    fail(Errc::malformed_metadata, position,
         fmt::format("the block's header says that its chunk lies from {} to {}; it begins at {}", begin, end,
                     chunk.begin));
  }
  chunk.end = end;
}

void BlockReader::append(Chunk& chunk, std::uint64_t bytes, std::string& out) const {
  // Memory that grows by steps is cleared, read and moved in the processor's cache.
  constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 20;
  const std::uint64_t end = end_with_headers(chunk.position, bytes);
  out.reserve(out.size() + static_cast<std::size_t>(end - chunk.position));
  while (chunk.position < end) {
    const std::uint64_t whole_blocks = kStepBytes - chunk.position % kBlockBytes;
    std::size_t kept = out.size();
    std::size_t next = kept;
    out.resize(kept + static_cast<std::size_t>(std::min(end - chunk.position, whole_blocks)));
    read(std::span(out).subspan(kept), chunk.position);
    while (next < out.size()) {
      if (chunk.position % kBlockBytes == 0) {
        const std::string_view header(out.data() + next, kBlockHeaderBytes);
        require_same(chunk, decoded(header, chunk.position), chunk.position);
        chunk.position += header.size();
        next += header.size();
      }
      const auto piece = static_cast<std::size_t>(
          std::min<std::uint64_t>(out.size() - next, kBlockBytes - chunk.position % kBlockBytes));
      std::memmove(out.data() + kept, out.data() + next, piece);
      chunk.position += piece;
      kept += piece;
      next += piece;
    }
    out.resize(kept);
  }
}

void BlockReader::verify_rest(Chunk& chunk) const {
  for (std::uint64_t block = round_up(chunk.position, kBlockBytes); block < chunk.end; block += kBlockBytes) {
    require_same(chunk, block_header(block), block);
  }
}

Chunk BlockReader::chunk_at(std::uint64_t begin) const {
  if (!is_chunk_boundary(begin)) {
    fail(Errc::malformed_metadata, begin, "no chunk can begin within the header of a block");
  }
  if (end_with_headers(begin, kChunkHeaderBytes) > bytes_) {
    fail(Errc::malformed_metadata, begin, "the file ends within the header of a chunk");
  }
  Chunk chunk;
  chunk.begin = begin;
  chunk.position = begin;
  std::string bytes;
  append(chunk, kChunkHeaderBytes, bytes);
  const std::optional<ChunkHeader> header = decode_chunk_header(bytes);
  if (!header) {
    fail(Errc::checksum_mismatch, begin, "the hash of the chunk's header is another");
  }
  const std::optional<std::uint64_t> end = chunk_end(begin, *header);
  if (!end || *end > bytes_) {
    fail(Errc::malformed_metadata, begin,
         fmt::format("the file ends within a chunk of {} bytes and {} records", header->data_bytes,
                     header->records));
  }
  if (chunk.end > 0 && chunk.end != *end) {
    fail(Errc::malformed_metadata, begin,
         fmt::format("the chunk ends at {}, and a block's header says {}", *end, chunk.end));
  }
  chunk.end = *end;
  chunk.header = *header;
  return chunk;
}

}  // namespace cairn::records
