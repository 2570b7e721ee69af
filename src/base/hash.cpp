// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/hash.hpp"

#include <fmt/format.h>

#include "base/internal/xxh3.hpp"

namespace cairn {

std::string to_hex(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

std::optional<Hash128> parse_hash(std::string_view hex) noexcept {
  if (hex.size() != 32) {
    return std::nullopt;
  }
  Hash128 hash;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const char digit = hex[i];
    const bool is_decimal = digit >= '0' && digit <= '9';
    if (!is_decimal && (digit < 'a' || digit > 'f')) {
      return std::nullopt;
    }
    const auto value = static_cast<std::uint64_t>(is_decimal ? digit - '0' : digit - 'a' + 10);
    std::uint64_t& half = i < 16 ? hash.high : hash.low;
    half = half << 4 | value;
  }
  return hash;
}

Hash128 hash_bytes(std::span<const std::byte> bytes) noexcept {
  const Xxh3Pair hash = xxh3_128(bytes.data(), bytes.size());
  return {hash.high, hash.low};
}

Hash128 hash_text(std::string_view text) noexcept {
  return hash_bytes(std::as_bytes(std::span(text)));
}

}  // namespace cairn
