// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::store {

/// Fills memory with random bytes; injected, so that tests can choose them.
using RandomSource = std::function<void(std::span<std::byte>)>;

/// The operating system's.
///
/// Errors: OS errors pass through.
void system_random(std::span<std::byte> bytes);

/// A random identifier (RFC 4122, version 4).
struct Uuid {
  std::array<std::byte, 16> bytes{};
  friend bool operator==(const Uuid&, const Uuid&) = default;
};

[[nodiscard]] Uuid make_uuid(const RandomSource& random);
/// 36 characters, lower case: "f81d4fae-7dec-41d0-a765-00a0c91e6bf6".
[[nodiscard]] std::string to_string(const Uuid& uuid);
/// The reverse; nothing for any other text.
[[nodiscard]] std::optional<Uuid> parse_uuid(std::string_view text);

}  // namespace cairn::store
