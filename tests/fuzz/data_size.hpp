// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

namespace cairn::fuzz {

/// The largest number behind a "data_offsets" of a safetensors header: as many bytes of data it most likely
/// wants.
inline std::uint64_t wanted_data_bytes(std::string_view header) noexcept {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 16;
  constexpr std::string_view kKey = "\"data_offsets\"";
  std::uint64_t largest = 0;
  for (std::size_t at = header.find(kKey); at != std::string_view::npos; at = header.find(kKey, at + 1)) {
    std::uint64_t number = 0;
    for (const char c : header.substr(at, header.find(']', at) - at)) {
      const bool counts = c >= '0' && c <= '9' && number < kMost;
      number = counts ? number * 10 + static_cast<std::uint64_t>(c - '0') : 0;
      largest = std::max(largest, number);
    }
  }
  return largest;
}

}  // namespace cairn::fuzz
