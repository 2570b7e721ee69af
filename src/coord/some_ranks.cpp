// SPDX-License-Identifier: Apache-2.0
#include "coord/some_ranks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/internal/packed.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMostNamed = 4;

}  // namespace

void SomeRanks::add(std::size_t rank) {
  add(SomeRanks{{static_cast<std::uint32_t>(rank)}, 1});
}

void SomeRanks::add(const SomeRanks& others) {
  count += others.count;
  lowest.insert(lowest.end(), others.lowest.begin(), others.lowest.end());
  std::sort(lowest.begin(), lowest.end());
  lowest.resize(std::min(lowest.size(), kMostNamed));
}

std::string to_string(const SomeRanks& ranks) {
  std::string text = ranks.count == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.lowest.size(); ++i) {
    const bool is_last = i + 1 == ranks.count;
    text += fmt::format("{}{}", i == 0 ? "" : (is_last ? " and " : ", "), ranks.lowest[i]);
  }
  if (ranks.count > ranks.lowest.size()) {
    text += fmt::format(" and {} more", ranks.count - ranks.lowest.size());
  }
  return text;
}

namespace coord {

void put_ranks(std::string& text, const SomeRanks& ranks) {
  put(text, ranks.count);
  put(text, static_cast<std::uint8_t>(ranks.lowest.size()));
  for (const std::uint32_t rank : ranks.lowest) {
    put(text, rank);
  }
}

SomeRanks take_ranks(std::string_view& text) {
  SomeRanks ranks;
  ranks.count = take<std::uint64_t>(text);
  for (auto left = take<std::uint8_t>(text); left > 0; --left) {
    ranks.lowest.push_back(take<std::uint32_t>(text));
  }
  return ranks;
}

}  // namespace coord
}  // namespace cairn
