// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::formats {

/// The first name found that `names` holds twice, or nothing.
///
/// Names that are sorted already take one look each. Else it sorts hashes, several times quicker than sorting names
/// with long common beginnings. Equal hashes are ordered by name, so that names chosen to collide cost a sort and not
/// a square.
[[nodiscard]] inline std::optional<std::string_view> find_duplicate(
    const std::vector<std::string_view>& names) {
  if (std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end()) {
    return std::nullopt;
  }
  std::vector<std::pair<std::size_t, std::string_view>> hashed;
  hashed.reserve(names.size());
  for (const std::string_view name : names) {
    hashed.emplace_back(std::hash<std::string_view>{}(name), name);
  }
  std::sort(hashed.begin(), hashed.end());
  const auto twice = std::adjacent_find(hashed.begin(), hashed.end());
  if (twice == hashed.end()) {
    return std::nullopt;
  }
  return twice->second;
}

}  // namespace cairn::formats
