// SPDX-License-Identifier: Apache-2.0
#include "records/layout.hpp"

#include <vector>

#include <boost/endian/conversion.hpp>
#include <highwayhash/highwayhash_target.h>
#include <highwayhash/instruction_sets.h>

namespace cairn::records {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
// "Riegeli/records\n", twice.
constexpr highwayhash::HHKey kHashKey = {0x2f696c6567656952, 0x0a7364726f636572, 0x2f696c6567656952,
                                         0x0a7364726f636572};
constexpr int kTypeBits = 8;

void store(std::byte* place, std::uint64_t number) noexcept {
  boost::endian::endian_store<std::uint64_t, kWordBytes, boost::endian::order::little>(
      reinterpret_cast<unsigned char*>(place), number);
}

std::uint64_t load(const std::byte* place) noexcept {
  return boost::endian::endian_load<std::uint64_t, kWordBytes, boost::endian::order::little>(
      reinterpret_cast<const unsigned char*>(place));
}

/// A header of numbers, with their hash in front.
template <std::size_t size>
std::array<std::byte, size> hashed(const std::array<std::uint64_t, size / kWordBytes - 1>& numbers) noexcept {
  std::array<std::byte, size> bytes{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    store(bytes.data() + (i + 1) * kWordBytes, numbers[i]);
  }
  store(bytes.data(), hash(Bytes(bytes).subspan(kWordBytes)));
  return bytes;
}

bool has_its_hash(Bytes header) noexcept {
  return load(header.data()) == hash(header.subspan(kWordBytes));
}

}  // namespace

std::uint64_t hash(std::span<const Bytes> fragments) {
  std::vector<highwayhash::StringView> views;
  views.reserve(fragments.size());
  for (const Bytes fragment : fragments) {
    views.push_back({reinterpret_cast<const char*>(fragment.data()), fragment.size()});
  }
  highwayhash::HHResult64 result = 0;
  highwayhash::InstructionSets::Run<highwayhash::HighwayHashCat>(kHashKey, views.data(), views.size(),
                                                                 &result);
  return result;
}

std::uint64_t hash(Bytes bytes) noexcept {
  highwayhash::HHResult64 result = 0;
  highwayhash::InstructionSets::Run<highwayhash::HighwayHash>(
      kHashKey, reinterpret_cast<const char*>(bytes.data()), bytes.size(), &result);
  return result;
}

std::array<std::byte, kBlockHeaderBytes> encode(const BlockHeader& header) noexcept {
  return hashed<kBlockHeaderBytes>({header.previous_chunk, header.next_chunk});
}

std::array<std::byte, kChunkHeaderBytes> encode(const ChunkHeader& header) noexcept {
  const std::uint64_t type_and_records =
      static_cast<unsigned char>(header.type) | (header.records << kTypeBits);
  return hashed<kChunkHeaderBytes>(
      {header.data_bytes, header.data_hash, type_and_records, header.decoded_bytes});
}

std::optional<BlockHeader> decode_block_header(std::span<const std::byte, kBlockHeaderBytes> bytes) noexcept {
  if (!has_its_hash(bytes)) {
    return std::nullopt;
  }
  return BlockHeader{load(bytes.data() + kWordBytes), load(bytes.data() + 2 * kWordBytes)};
}

std::optional<ChunkHeader> decode_chunk_header(std::span<const std::byte, kChunkHeaderBytes> bytes) noexcept {
  if (!has_its_hash(bytes)) {
    return std::nullopt;
  }
  ChunkHeader header;
  header.data_bytes = load(bytes.data() + kWordBytes);
  header.data_hash = load(bytes.data() + 2 * kWordBytes);
  const std::uint64_t type_and_records = load(bytes.data() + 3 * kWordBytes);
  header.type = static_cast<char>(type_and_records);
  header.records = type_and_records >> kTypeBits;
  header.decoded_bytes = load(bytes.data() + 4 * kWordBytes);
  return header;
}

void append_varint(std::string& text, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) {
    text += static_cast<char>((number & 0x7F) | 0x80);
  }
  text += static_cast<char>(number);
}

}  // namespace cairn::records
