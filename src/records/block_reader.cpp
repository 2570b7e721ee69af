// SPDX-License-Identifier: Apache-2.0
#include "records/block_reader.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "io/internal/check.hpp"

namespace cairn::records {

BlockReader::BlockReader(io::Syscalls& syscalls, const std::filesystem::path& path) : path_(path) {
  io::require_path(path);
  // O_NONBLOCK: the open of a FIFO would wait for a writer.
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  const int fd = io::uninterrupted([&] { return syscalls.open_at(AT_FDCWD, path.c_str(), flags, 0); });
  if (fd == -ENOENT) {
    throw Error(Errc::not_found, path.string());
  }
  file_ = io::FileHandle(syscalls, io::require(fd, "open", path));
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return syscalls.status(file_.fd(), status); }), "stat", path);
  if (status.kind != io::FileKind::regular) {
    throw Error(Errc::malformed_metadata, fmt::format("{} is not a regular file", path.string()));
  }
  bytes_ = status.size_bytes;
}

BlockReader::BlockReader(Bytes memory) : memory_(memory), bytes_(memory.size()) {}

void BlockReader::fail(Errc code, std::uint64_t position, std::string_view reason) const {
  throw Error(code, fmt::format("{} at {}: {}", file_.is_open() ? path_.string() : "records in memory",
                                position, reason));
}

void BlockReader::read_raw(std::span<std::byte> out, std::uint64_t position) const {
  if (file_.is_open()) {
    io::read_all(file_, out, position, path_);
  } else if (!out.empty()) {
    std::memcpy(out.data(), memory_.data() + position, out.size());
  }
}

BlockHeader BlockReader::decoded(std::span<const std::byte, kBlockHeaderBytes> bytes,
                                 std::uint64_t position) const {
  const std::optional<BlockHeader> header = decode_block_header(bytes);
  if (!header) {
    fail(Errc::checksum_mismatch, position, "the hash of the block's header is another");
  }
  return *header;
}

BlockHeader BlockReader::block_header(std::uint64_t position) const {
  if (bytes_ - position < kBlockHeaderBytes) {
    fail(Errc::malformed_metadata, position, "the file ends within the header of a block");
  }
  std::array<std::byte, kBlockHeaderBytes> bytes{};
  read_raw(bytes, position);
  return decoded(bytes, position);
}

void BlockReader::check_block_header(ChunkRange& chunk, std::uint64_t position,
                                     std::span<const std::byte, kBlockHeaderBytes> bytes) const {
  const BlockHeader header = decoded(bytes, position);
  if (header.previous_chunk != position - chunk.begin) {
    fail(Errc::malformed_metadata, position,
         fmt::format("the block's header says that its chunk begins {} bytes before, which is not {}",
                     header.previous_chunk, chunk.begin));
  }
  if (header.next_chunk > bytes_ - position) {
    fail(Errc::malformed_metadata, chunk.begin, "the file ends within a chunk");
  }
  const std::uint64_t end = position + header.next_chunk;
  if (chunk.end.value_or(end) != end) {
    fail(Errc::malformed_metadata, position,
         fmt::format("the block's header says that its chunk ends at {}, which ends at {}", end, *chunk.end));
  }
  chunk.end = end;
}

std::uint64_t BlockReader::read(ChunkRange& chunk, std::uint64_t position, std::span<std::byte> out) const {
  std::array<std::byte, kBlockHeaderBytes> apart{};
  for (std::size_t done = 0; done < out.size();) {
    const bool is_at_header = position % kBlockBytes == 0;
    const std::uint64_t header_bytes = is_at_header ? kBlockHeaderBytes : 0;
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(kBlockBytes - position % kBlockBytes - header_bytes, out.size() - done));
    const std::span<std::byte> place = out.subspan(done, size);
    if (!is_at_header) {
      read_raw(place, position);
    } else if (done < kBlockHeaderBytes) {
      read_raw(apart, position);
      check_block_header(chunk, position, apart);
      read_raw(place, position + kBlockHeaderBytes);
    } else {
      // One call a block: its header is read over the bytes in front of the block's own, which are put back.
      const std::span<std::byte, kBlockHeaderBytes> before(place.data() - kBlockHeaderBytes,
                                                           kBlockHeaderBytes);
      std::memcpy(apart.data(), before.data(), kBlockHeaderBytes);
      read_raw({before.data(), kBlockHeaderBytes + size}, position);
      check_block_header(chunk, position, before);
      std::memcpy(before.data(), apart.data(), kBlockHeaderBytes);
    }
    position += header_bytes + size;
    done += size;
  }
  return position;
}

std::uint64_t BlockReader::append(ChunkRange& chunk, std::uint64_t position, std::uint64_t bytes,
                                  std::string& out) const {
  // What grows by steps is cleared in the processor's cache, right before it is read to.
  constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 20;
  out.reserve(out.size() + static_cast<std::size_t>(bytes));
  for (std::uint64_t left = bytes; left > 0;) {
    const auto step = static_cast<std::size_t>(std::min(left, kStepBytes));
    const std::size_t begin = out.size();
    out.resize(begin + step);
    position = read(chunk, position, std::as_writable_bytes(std::span(out).subspan(begin)));
    left -= step;
  }
  return position;
}

void BlockReader::verify_rest(ChunkRange& chunk, std::uint64_t position) const {
  std::array<std::byte, kBlockHeaderBytes> bytes{};
  for (position = (position + kBlockBytes - 1) / kBlockBytes * kBlockBytes; position < *chunk.end;
       position += kBlockBytes) {
    read_raw(bytes, position);
    check_block_header(chunk, position, bytes);
  }
}

ChunkHeader BlockReader::chunk_header(ChunkRange& chunk, std::uint64_t& position) const {
  if (!is_chunk_boundary(chunk.begin)) {
    fail(Errc::malformed_metadata, chunk.begin, "no chunk can begin within the header of a block");
  }
  if (end_with_headers(chunk.begin, kChunkHeaderBytes) > bytes_) {
    fail(Errc::malformed_metadata, chunk.begin, "the file ends within the header of a chunk");
  }
  std::array<std::byte, kChunkHeaderBytes> bytes{};
  position = read(chunk, chunk.begin, bytes);
  const std::optional<ChunkHeader> header = decode_chunk_header(bytes);
  if (!header) {
    fail(Errc::checksum_mismatch, chunk.begin, "the hash of the chunk's header is another");
  }
  const std::optional<std::uint64_t> end = chunk_end(chunk.begin, *header);
  if (!end || *end > bytes_) {
    fail(Errc::malformed_metadata, chunk.begin,
         fmt::format("the file ends within a chunk of {} bytes and {} records", header->data_bytes,
                     header->records));
  }
  if (chunk.end.value_or(*end) != *end) {
    fail(Errc::malformed_metadata, chunk.begin,
         fmt::format("the chunk ends at {}, and a block's header says {}", *end, *chunk.end));
  }
  chunk.end = end;
  return *header;
}

}  // namespace cairn::records
