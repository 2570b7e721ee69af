// SPDX-License-Identifier: Apache-2.0
#include "io/internal/chunk_hash.hpp"

#include <algorithm>
#include <utility>

#define XXH_INLINE_ALL
#include <boost/endian/arithmetic.hpp>
#include <fmt/format.h>
#include <xxhash.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/xxh3.hpp"

namespace cairn::io {

std::uint64_t hash_chunk(std::span<const std::byte> chunk) noexcept {
  return xxh3_64(chunk.data(), chunk.size());
}

Hash128 hash_root(std::span<const std::uint64_t> chunks, std::uint64_t size_bytes) {
  std::vector<boost::endian::little_uint64_t> numbers(chunks.begin(), chunks.end());
  numbers.emplace_back(size_bytes);
  return hash_bytes(std::as_bytes(std::span(numbers)));
}

struct ChunkHasher::Stream {
  Stream() { XXH3_64bits_reset(&state); }

  XXH3_state_t state;
  std::size_t pending_bytes = 0;  // Of the chunk that `state` is in; below kChunkBytes.
  FileDigest digest;
};

ChunkHasher::ChunkHasher() : stream_(std::make_unique<Stream>()) {}

ChunkHasher::~ChunkHasher() = default;
ChunkHasher::ChunkHasher(ChunkHasher&&) noexcept = default;
ChunkHasher& ChunkHasher::operator=(ChunkHasher&&) noexcept = default;

void ChunkHasher::update(std::span<const std::byte> bytes) {
  stream_->digest.size_bytes += bytes.size();
  while (!bytes.empty()) {
    CAIRN_ASSERT(stream_->pending_bytes < kChunkBytes, "a chunk that is full has been hashed");
    const std::size_t taken = std::min(bytes.size(), kChunkBytes - stream_->pending_bytes);
    if (taken == kChunkBytes) {
      stream_->digest.chunks.push_back(hash_chunk(bytes.first(taken)));  // A whole chunk needs no state.
    } else {
      XXH3_64bits_update(&stream_->state, bytes.data(), taken);
      stream_->pending_bytes += taken;
      if (stream_->pending_bytes == kChunkBytes) {
        stream_->digest.chunks.push_back(XXH3_64bits_digest(&stream_->state));
        XXH3_64bits_reset(&stream_->state);
        stream_->pending_bytes = 0;
      }
    }
    bytes = bytes.subspan(taken);
  }
}

FileDigest ChunkHasher::finish(std::string path) {
  if (stream_->pending_bytes != 0) {
    stream_->digest.chunks.push_back(XXH3_64bits_digest(&stream_->state));
  }
  FileDigest digest = std::move(stream_->digest);
  CAIRN_ASSERT(digest.chunks.size() == chunk_count(digest.size_bytes),
               "a file has a hash for each of its chunks");
  digest.path = std::move(path);
  stream_ = std::make_unique<Stream>();
  return digest;
}

void verify_chunks(std::string_view path, std::uint64_t offset_bytes, std::span<const std::byte> data,
                   const FileDigest& digest) {
  CAIRN_ASSERT(offset_bytes % kChunkBytes == 0, "bytes are compared from the begin of a chunk on");
  CAIRN_ASSERT(data.empty() || offset_bytes / kChunkBytes < digest.chunks.size(),
               "there are hashes for the bytes that are compared");
  for_each_chunk(offset_bytes, data, [&](std::uint64_t index, std::span<const std::byte> chunk) {
    if (hash_chunk(chunk) != digest.chunks.at(index)) {
      const std::uint64_t begin = index * kChunkBytes;
      throw Error(Errc::checksum_mismatch,
                  fmt::format("{}: chunk {} (bytes {} to {})", path, index, begin, begin + chunk.size()));
    }
  });
}

}  // namespace cairn::io
