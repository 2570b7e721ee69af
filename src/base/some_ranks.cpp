// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/some_ranks.hpp"

#include <algorithm>

#include <fmt/format.h>

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

bool SomeRanks::remove(std::size_t rank) {
  const bool is_named = std::erase(lowest, static_cast<std::uint32_t>(rank)) > 0;
  count -= is_named ? 1 : 0;
  return is_named;
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

}  // namespace cairn
