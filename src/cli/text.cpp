// SPDX-License-Identifier: Apache-2.0
#include "cli/text.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace cairn::cli {
std::size_t display_width(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80; }));
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // From 1023.95 on, one decimal would be rounded up to "1024.0".
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string count_text(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) {
    digits.insert(at - 3, ",");
  }
  return digits;
}

std::string count_text(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count_text(count), noun, count == 1 ? "" : "s");
}

std::string age_text(std::chrono::seconds age) {
  // A unit takes over when two of it have passed: "90 s" says more than "1 min".
  if (age < std::chrono::minutes(2)) {
    return fmt::format("{} s", age.count());
  }
  if (age < std::chrono::hours(2)) {
    return fmt::format("{} min", age.count() / 60);
  }
  if (age < std::chrono::hours(48)) {
    return fmt::format("{} h", age.count() / 3600);
  }
  return fmt::format("{} d", age.count() / 86'400);
}

}  // namespace cairn::cli
