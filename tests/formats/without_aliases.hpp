// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/internal/index.hpp"
#include "formats/internal/index_builder.hpp"

namespace cairn::testing {

/// The bytes of an index as programs see it that do not know the columns of aliases: both are missing in the list of
/// its fields.
inline std::string without_aliases(std::span<const std::byte> index) {
  constexpr std::size_t kFirstField = 23;
  std::string bytes(reinterpret_cast<const char*>(index.data()), index.size());
  const auto read = [&bytes](std::size_t at, auto number) {
    std::memcpy(&number, bytes.data() + at, sizeof number);
    return number;
  };
  const std::size_t table = read(0, std::uint32_t{});
  const std::size_t fields = table - static_cast<std::size_t>(read(table, std::int32_t{}));
  const std::size_t end = fields + read(fields, std::uint16_t{});
  for (std::size_t at = fields + 4 + 2 * kFirstField; at < end; ++at) {
    bytes[at] = '\0';
  }
  return bytes;
}

/// As above, opened.
inline formats::Index seen_without_aliases(const formats::IndexBytes& index) {
  const std::string text = without_aliases(index.bytes);
  const auto words = std::make_shared<std::vector<std::uint64_t>>((text.size() + 7) / 8);
  std::memcpy(words->data(), text.data(), text.size());
  return formats::Index::open(words, std::as_bytes(std::span(*words)).first(text.size()), "older");
}

}  // namespace cairn::testing
