// SPDX-License-Identifier: Apache-2.0
#include "records/layout.hpp"

#include <initializer_list>

#include "base/internal/packed.hpp"

namespace cairn::records {
namespace {

constexpr int kTypeBits = 8;

/// A header of these numbers, with their hash in front.
std::string hashed(std::initializer_list<std::uint64_t> numbers) {
  std::string text;
  for (const std::uint64_t number : numbers) {
    put(text, number);
  }
  std::string header;
  put(header, hash(bytes_of(text)));
  return header + text;
}

/// Takes the hash from the front. Returns whether it is that of the rest.
bool take_hash(std::string_view& header) {
  const auto expected = take<std::uint64_t>(header);
  return hash(bytes_of(header)) == expected;
}

}  // namespace

std::string encode(const BlockHeader& header) {
  return hashed({header.previous_chunk, header.next_chunk});
}

std::string encode(const ChunkHeader& header) {
  const std::uint64_t type_and_records =
      static_cast<unsigned char>(header.type) | (header.records << kTypeBits);
  return hashed({header.data_bytes, header.data_hash, type_and_records, header.decoded_bytes});
}

std::string signature() {
  ChunkHeader header;
  header.type = chunk_type::kSignature;
  header.data_hash = hash(Bytes());
  return encode(BlockHeader{0, kSignatureBytes}) + encode(header);
}

std::optional<BlockHeader> decode_block_header(std::string_view bytes) {
  if (!take_hash(bytes)) {
    return std::nullopt;
  }
  BlockHeader header;
  header.previous_chunk = take<std::uint64_t>(bytes);
  header.next_chunk = take<std::uint64_t>(bytes);
  return header;
}

std::optional<ChunkHeader> decode_chunk_header(std::string_view bytes) {
  if (!take_hash(bytes)) {
    return std::nullopt;
  }
  ChunkHeader header;
  header.data_bytes = take<std::uint64_t>(bytes);
  header.data_hash = take<std::uint64_t>(bytes);
  const auto type_and_records = take<std::uint64_t>(bytes);
  header.type = static_cast<char>(type_and_records);
  header.records = type_and_records >> kTypeBits;
  header.decoded_bytes = take<std::uint64_t>(bytes);
  return header;
}

void append_varint(std::string& text, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) {
    text += static_cast<char>((number & 0x7F) | 0x80);
  }
  text += static_cast<char>(number);
}

std::optional<std::uint64_t> take_varint(std::string_view& text) noexcept {
  constexpr int kLastShift = 63;
  std::uint64_t number = 0;
  for (int shift = 0; shift <= kLastShift && !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    if (shift == kLastShift && byte > 1) {
      return std::nullopt;
    }
    number |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) {
      return number;
    }
  }
  return std::nullopt;
}

}  // namespace cairn::records
