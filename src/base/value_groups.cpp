// SPDX-License-Identifier: Apache-2.0
#include "base/internal/value_groups.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/packed.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMostGroups = 4;

}  // namespace

std::vector<ValueGroup> merge_value_groups(std::span<const ValueGroup> groups) {
  std::vector<ValueGroup> merged;
  for (const ValueGroup& group : groups) {
    const auto same = std::find_if(merged.begin(), merged.end(),
                                   [&group](const ValueGroup& other) { return other.value == group.value; });
    if (same == merged.end()) {
      merged.push_back(group);
    } else {
      same->ranks.add(group.ranks);
    }
  }
  std::sort(merged.begin(), merged.end(), [](const ValueGroup& a, const ValueGroup& b) {
    return a.ranks.lowest.front() < b.ranks.lowest.front();
  });
  merged.resize(std::min(merged.size(), kMostGroups));
  return merged;
}

std::string to_string(std::span<const ValueGroup> groups) {
  std::string text;
  for (const ValueGroup& group : groups) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", to_string(group.ranks),
                        group.ranks.count == 1 ? "has" : "have", group.value);
  }
  return text;
}

std::string encode_value_groups(std::span<const ValueGroup> groups) {
  std::string text;
  for (const ValueGroup& group : groups) {
    put_ranks(text, group.ranks);
    put_text(text, group.value);
  }
  return text;
}

std::vector<ValueGroup> decode_value_groups(std::string_view text) {
  std::vector<ValueGroup> groups;
  while (!text.empty()) {
    ValueGroup& group = groups.emplace_back();
    group.ranks = take_ranks(text);
    if (group.ranks.lowest.empty()) {
      throw Error(Errc::malformed_metadata, "message does not name its rank");
    }
    group.value = take_text(text);
  }
  return groups;
}

std::string merge_encoded_value_groups(const std::vector<std::string>& texts) {
  std::vector<ValueGroup> groups;
  for (const std::string& text : texts) {
    const std::vector<ValueGroup> some = decode_value_groups(text);
    groups.insert(groups.end(), some.begin(), some.end());
  }
  return encode_value_groups(merge_value_groups(groups));
}

}  // namespace cairn
