// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/rank_values.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "cairn/base/hash.hpp"

#include "base/internal/packed.hpp"
#include "base/internal/value_groups.hpp"

namespace cairn::joint {
namespace {

constexpr std::size_t kMostShownBytes = 200;  // Of a value in which ranks differ.

using GroupValues = std::vector<std::pair<std::string_view, std::string_view>>;

GroupValues values_of(const ValueGroup& group) {
  GroupValues values;
  for (std::string_view text = group.value; !text.empty();) {
    const std::string_view what = take_text(text);
    values.emplace_back(what, take_text(text));
  }
  return values;
}

/// Returns the value that a group has of something; nothing where it is silent.
std::optional<std::string_view> find(const GroupValues& values, std::string_view what) {
  const auto found =
      std::find_if(values.begin(), values.end(), [what](const auto& each) { return each.first == what; });
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

/// Returns which ranks have which value of something, the lowest ranks first; empty where all have the same.
std::string difference_of(std::string_view what, const std::vector<ValueGroup>& groups,
                          const std::vector<GroupValues>& values) {
  std::vector<std::string> texts;
  texts.reserve(groups.size());  // They stay where they are.
  std::vector<ValueGroup> holders;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::optional<std::string_view> has = find(values[i], what);
    texts.push_back(has ? fmt::format("'{}'", *has) : "none");
    holders.push_back({groups[i].ranks, texts.back()});
  }
  const std::vector<ValueGroup> different = merge_value_groups(holders);
  return different.size() < 2 ? std::string() : fmt::format("{}: {}", what, to_string(different));
}

}  // namespace

std::string encode_rank_values(std::uint32_t rank, const RankValues& values) {
  std::string text;
  for (const auto& [what, mine] : values) {
    put_text(text, what);
    const bool is_long = mine.size() > kMostShownBytes;
    put_text(text, is_long
                       ? fmt::format("{}… ({})", mine.substr(0, kMostShownBytes / 2), to_hex(hash_text(mine)))
                       : mine);
  }
  ValueGroup own;
  own.ranks.add(rank);
  own.value = text;
  return encode_value_groups({&own, 1});
}

std::string merge_rank_values(const std::vector<std::string>& texts) {
  return merge_encoded_value_groups(texts);
}

std::optional<Disagreement> difference_in(std::string_view merged) {
  const std::vector<ValueGroup> groups = decode_value_groups(merged);
  std::vector<GroupValues> values;
  for (const ValueGroup& group : groups) {
    values.push_back(values_of(group));
  }
  for (const GroupValues& of_one : values) {
    for (const auto& [what, has] : of_one) {
      std::string text = difference_of(what, groups, values);
      if (!text.empty()) {
        return Disagreement{std::string(what), std::move(text)};
      }
    }
  }
  return std::nullopt;
}

}  // namespace cairn::joint
