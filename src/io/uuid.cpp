// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/uuid.hpp"

#include <sys/random.h>

#include <cerrno>

#include "cairn/base/error.hpp"

namespace cairn::io {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

constexpr bool is_dash_before(std::size_t byte) {
  return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

}  // namespace

void system_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t filled = ::getrandom(bytes.data(), bytes.size(), 0);
    if (filled < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw_errno(errno, "getrandom", "");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(filled));
  }
}

Uuid make_uuid(const RandomSource& random) {
  Uuid uuid;
  random(uuid.bytes);
  uuid.bytes[6] = (uuid.bytes[6] & std::byte{0x0f}) | std::byte{0x40};  // Version 4: random.
  uuid.bytes[8] = (uuid.bytes[8] & std::byte{0x3f}) | std::byte{0x80};  // The variant of RFC 4122.
  return uuid;
}

std::string to_string(const Uuid& uuid) {
  std::string text;
  text.reserve(36);
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (is_dash_before(i)) {
      text += '-';
    }
    const auto value = std::to_integer<unsigned>(uuid.bytes[i]);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

std::optional<Uuid> parse_uuid(std::string_view text) noexcept {
  if (text.size() != 36) {
    return std::nullopt;
  }
  Uuid uuid;
  std::size_t at = 0;
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (is_dash_before(i) && text[at++] != '-') {
      return std::nullopt;
    }
    const std::size_t high = kDigits.find(text[at++]);
    const std::size_t low = kDigits.find(text[at++]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
      return std::nullopt;
    }
    uuid.bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return uuid;
}

}  // namespace cairn::io
