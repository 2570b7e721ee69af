// SPDX-License-Identifier: Apache-2.0
#include "records/layout.hpp"

#include <array>
#include <string>
#include <utility>

#include <gmock/gmock.h>

namespace cairn::records {
namespace {

using ::testing::Eq;
using ::testing::Optional;

std::string counting(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    text += static_cast<char>(i);
  }
  return text;
}

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

TEST(RecordsHash, IsThatOfRiegeli) {
  const std::array<std::pair<std::size_t, std::uint64_t>, 10> known = {{{0, 0x72c3b1e9c0139fe1},
                                                                        {1, 0x2cd57bc47907559d},
                                                                        {3, 0x3bbb8da470c80319},
                                                                        {16, 0x3e13be3a4140f4a7},
                                                                        {17, 0xa7084c614077eaca},
                                                                        {31, 0x4d262a709c34ae7d},
                                                                        {32, 0xb73f6df550f9dce4},
                                                                        {33, 0xec2f920014eaa741},
                                                                        {64, 0xe34b1e100f1322af},
                                                                        {100, 0xe809487465a44f74}}};

  for (const auto& [bytes, expected] : known) {
    const std::string text = counting(bytes);
    const std::array<Bytes, 3> parts = {bytes_of(text).first(bytes / 3), Bytes(),
                                        bytes_of(text).subspan(bytes / 3)};
    EXPECT_EQ(hash(bytes_of(text)), expected) << bytes;
    EXPECT_EQ(hash(parts), expected) << bytes << " in parts";
  }
}

// Headers of files that XLA has written.
TEST(RecordsLayout, ReadsHeadersOfBlocks) {
  const auto header = decode_block_header(from_hex("e3ac37518570b602c0ff000000000000232c010000000000"));

  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->previous_chunk, 65472U);
  EXPECT_EQ(header->next_chunk, 76835U);
  EXPECT_EQ(64 + header->previous_chunk, 65536U);
}

TEST(RecordsLayout, ReadsHeadersOfChunksAndKnowsWhereTheyEnd) {
  const auto first = decode_chunk_header(
      from_hex("9e5c01fcc92bbcb58b2b0200000000001d8fb7a808e066807202000000000000ab260b0000000000"));
  const auto second = decode_chunk_header(
      from_hex("b4998ec610168927f52903000000000071c570159d14718c720b00000000000041990f0000000000"));

  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->type, chunk_type::kSimple);
  EXPECT_EQ(first->records, 2U);
  EXPECT_EQ(second->records, 11U);
  EXPECT_THAT(chunk_end(64, *first), Optional(Eq(142371U)));
  EXPECT_THAT(chunk_end(142371, *second), Optional(Eq(349832U)));
}

TEST(RecordsLayout, WritesHeadersAsItReadsThem) {
  const std::string text =
      from_hex("9e5c01fcc92bbcb58b2b0200000000001d8fb7a808e066807202000000000000ab260b0000000000");

  EXPECT_EQ(encode(*decode_chunk_header(text)), text);
}

TEST(RecordsLayout, AHeaderWithAnotherHashIsNone) {
  std::string text =
      from_hex("9e5c01fcc92bbcb58b2b0200000000001d8fb7a808e066807202000000000000ab260b0000000000");
  text[9] ^= 1;

  EXPECT_FALSE(decode_chunk_header(text).has_value());
}

TEST(RecordsLayout, NoChunkBeginsWithinTheHeaderOfABlock) {
  EXPECT_TRUE(is_chunk_boundary(65536));
  EXPECT_FALSE(is_chunk_boundary(65537));
  EXPECT_FALSE(is_chunk_boundary(65536 + 24));
  EXPECT_TRUE(is_chunk_boundary(65536 + 25));
}

TEST(RecordsLayout, AChunkBeyondAllFilesHasNoEnd) {
  ChunkHeader header;
  header.data_bytes = ~std::uint64_t{0};

  EXPECT_EQ(chunk_end(64, header), std::nullopt);
}

TEST(RecordsVarint, ComesBack) {
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, ~std::uint64_t{0}}) {
    std::string text;
    append_varint(text, number);
    std::string_view rest(text);
    EXPECT_THAT(take_varint(rest), Optional(Eq(number)));
    EXPECT_EQ(rest, "");
  }
}

TEST(RecordsVarint, OneThatDoesNotEndOrFitIsNone) {
  std::string_view cut("\x80");
  std::string_view large("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
  std::string_view endless("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");

  EXPECT_EQ(take_varint(cut), std::nullopt);
  EXPECT_EQ(take_varint(large), std::nullopt);
  EXPECT_EQ(take_varint(endless), std::nullopt);
}

}  // namespace
}  // namespace cairn::records
