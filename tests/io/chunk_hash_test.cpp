// SPDX-License-Identifier: Apache-2.0
#include "io/internal/chunk_hash.hpp"

#include <string>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn::io {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The value for the empty input that the reference implementation documents.
TEST(HashChunk, IsXxh3) {
  EXPECT_EQ(hash_chunk({}), 0x2d06800538d394c2u);
}

TEST(HashRoot, DependsOnTheSize) {
  const std::vector<std::uint64_t> chunks = {1, 2};

  EXPECT_NE(hash_root(chunks, 1 << 21), hash_root(chunks, (1 << 21) - 1));
}

TEST(HashRoot, IsTheHashOfLittleEndianWords) {
  const std::vector<std::uint64_t> chunks = {0x0807060504030201};

  EXPECT_EQ(hash_root(chunks, 9), hash_text(std::string("\1\2\3\4\5\6\7\10\11\0\0\0\0\0\0\0", 16)));
}

TEST(ChunkCount, RoundsUp) {
  EXPECT_EQ(chunk_count(0), 0u);
  EXPECT_EQ(chunk_count(1), 1u);
  EXPECT_EQ(chunk_count(kChunkBytes), 1u);
  EXPECT_EQ(chunk_count(kChunkBytes + 1), 2u);
  EXPECT_EQ(chunk_count(~std::uint64_t{0}), std::uint64_t{1} << 44);
}

TEST(ChunkHasher, GivesTheSameForAnyPieces) {
  const std::string text(2 * kChunkBytes + 77, 'x');
  ChunkHasher whole;
  ChunkHasher pieces;

  whole.update(bytes_of(text));
  for (std::size_t at = 0; at < text.size(); at += 300001) {
    pieces.update(bytes_of(text).subspan(at, std::min<std::size_t>(300001, text.size() - at)));
  }
  const FileDigest digest = whole.finish("f");

  EXPECT_EQ(digest.chunks, pieces.finish("f").chunks);
  EXPECT_EQ(digest.chunks[1], hash_chunk(bytes_of(text).subspan(kChunkBytes, kChunkBytes)));
  EXPECT_EQ(digest.chunks[2], hash_chunk(bytes_of(text).last(77)));
}

TEST(ChunkHasher, AgreesWithTheHashOfAllAtOnceAtEverySize) {
  std::string text(3000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(i * 131 + i / 256);
  }
  for (std::size_t size = 1; size <= text.size(); ++size) {
    ChunkHasher hasher;  // A stream goes another way than bytes that are all there.
    hasher.update(bytes_of(text).first(size));
    ASSERT_EQ(hasher.finish("f").chunks.at(0), hash_chunk(bytes_of(text).first(size))) << size;
  }
}

TEST(ChunkHasher, StartsAnewAfterFinish) {
  ChunkHasher hasher;
  hasher.update(bytes_of("abc"));
  EXPECT_EQ(hasher.finish("first").size_bytes, 3u);

  const FileDigest empty = hasher.finish("second");

  EXPECT_EQ(empty.size_bytes, 0u);
  EXPECT_THAT(empty.chunks, ElementsAre());
}

TEST(VerifyChunks, NamesTheFileAndTheChunkThatDiffers) {
  const std::string two = std::string(kChunkBytes, 'a') + "abc";
  const std::uint64_t first = hash_chunk(bytes_of(two).first(kChunkBytes));
  const std::uint64_t last = hash_chunk(bytes_of("abc"));
  const auto verify = [&](std::uint64_t expected_first, std::uint64_t expected_last) {
    const FileDigest digest{"data", 4 * kChunkBytes + 3, {1, 2, 3, expected_first, expected_last}};
    verify_chunks("/c/data", 3 * kChunkBytes, bytes_of(two), digest);
  };

  EXPECT_NO_THROW(verify(first, last));
  EXPECT_THAT([&] { verify(1, last); },
              Fails(Errc::checksum_mismatch, HasSubstr("/c/data: chunk 3 (bytes 3145728 to 4194304)")));
  EXPECT_THAT([&] { verify(first, 1); },
              Fails(Errc::checksum_mismatch, HasSubstr("/c/data: chunk 4 (bytes 4194304 to 4194307)")));
}

}  // namespace
}  // namespace cairn::io
