// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn {

/// An XXH3-128: what files, layouts and structures are compared by. No protection against somebody who means harm.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

/// 32 lower-case hexadecimal digits, the high half first.
[[nodiscard]] std::string to_hex(const Hash128& hash);
/// The reverse; nothing for any other text.
[[nodiscard]] std::optional<Hash128> parse_hash(std::string_view hex) noexcept;

/// XXH3-128 of `bytes`.
[[nodiscard]] Hash128 hash_bytes(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] Hash128 hash_text(std::string_view text) noexcept;

}  // namespace cairn
