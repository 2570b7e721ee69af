// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <boost/endian/conversion.hpp>
#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/some_ranks.hpp"

namespace cairn {

/// Appends an integer, little-endian, to the bytes of a message between ranks.
template <class T>
void put(std::string& text, T value) {
  std::array<unsigned char, sizeof(T)> bytes;
  boost::endian::endian_store<T, sizeof(T), boost::endian::order::little>(bytes.data(), value);
  text.append(bytes.begin(), bytes.end());
}

/// Takes the first `bytes` bytes of a message.
///
/// Errors: Errc::malformed_metadata when it ends before.
inline std::string_view take_bytes(std::string_view& text, std::uint64_t bytes) {
  if (bytes > text.size()) {
    throw Error(Errc::malformed_metadata,
                fmt::format("a message ends {} bytes too early", bytes - text.size()));
  }
  const std::string_view taken = text.substr(0, static_cast<std::size_t>(bytes));
  text.remove_prefix(taken.size());
  return taken;
}

/// Takes what `put` has appended.
///
/// Errors: as take_bytes.
template <class T>
T take(std::string_view& text) {
  const std::string_view bytes = take_bytes(text, sizeof(T));
  return boost::endian::endian_load<T, sizeof(T), boost::endian::order::little>(
      reinterpret_cast<const unsigned char*>(bytes.data()));
}

/// Appends a text with its size before it.
inline void put_text(std::string& text, std::string_view what) {
  put(text, std::uint64_t{what.size()});
  text += what;
}

/// Takes what `put_text` has appended.
///
/// Errors: as take_bytes.
inline std::string_view take_text(std::string_view& text) {
  const auto bytes = take<std::uint64_t>(text);
  return take_bytes(text, bytes);
}

/// Appends ranks: count u64, how many are named u8, those u32.
inline void put_ranks(std::string& text, const SomeRanks& ranks) {
  put(text, ranks.count);
  put(text, static_cast<std::uint8_t>(ranks.lowest.size()));
  for (const std::uint32_t rank : ranks.lowest) {
    put(text, rank);
  }
}

/// Takes what `put_ranks` has appended.
///
/// Errors: as take_bytes.
inline SomeRanks take_ranks(std::string_view& text) {
  SomeRanks ranks;
  ranks.count = take<std::uint64_t>(text);
  for (auto left = take<std::uint8_t>(text); left > 0; --left) {
    ranks.lowest.push_back(take<std::uint32_t>(text));
  }
  return ranks;
}

}  // namespace cairn
