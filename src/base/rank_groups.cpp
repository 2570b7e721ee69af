// SPDX-License-Identifier: Apache-2.0
#include "base/internal/rank_groups.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/some_ranks.hpp"

#include "base/internal/packed.hpp"

namespace cairn {
namespace {

SomeRanks some_of(std::span<const std::uint32_t> ranks) {
  SomeRanks some;
  for (const std::uint32_t rank : ranks) {
    some.add(rank);
  }
  return some;
}

}  // namespace

RankGroup group_of(std::span<const std::uint32_t> ranks) {
  std::vector<std::uint32_t> members(ranks.begin(), ranks.end());
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  std::string text;
  for (const std::uint32_t rank : members) {
    put(text, rank);
  }
  return {members.empty() ? 0 : members.front(), hash_text(text)};
}

std::optional<RankGroup> own_group(std::uint32_t rank, std::span<const std::uint32_t> ranks) {
  if (ranks.empty()) {
    return std::nullopt;
  }
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    throw Error(Errc::invalid_argument,
                fmt::format("rank {} says that its group is {}", rank, to_string(some_of(ranks))));
  }
  return group_of(ranks);
}

std::vector<std::uint32_t> number_groups(std::span<const std::optional<RankGroup>> by_rank) {
  const auto is_named = [](const std::optional<RankGroup>& group) { return group.has_value(); };
  if (std::none_of(by_rank.begin(), by_rank.end(), is_named)) {
    return {};
  }
  std::vector<std::uint32_t> all(by_rank.size());
  std::iota(all.begin(), all.end(), 0U);
  const RankGroup of_all = group_of(all);
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::vector<std::uint32_t>> groups;
  for (const std::uint32_t rank : all) {
    const RankGroup& group = by_rank[rank] ? *by_rank[rank] : of_all;
    groups[{group.lowest, group.members.high, group.members.low}].push_back(rank);
  }
  std::vector<std::uint32_t> numbers(by_rank.size());
  std::uint32_t number = 0;
  for (const auto& [name, ranks] : groups) {
    const auto& [lowest, high, low] = name;
    if (group_of(ranks) != RankGroup{lowest, Hash128{high, low}}) {
      throw Error(Errc::invalid_argument,
                  fmt::format("groups of ranks contradict each other: the group that {} {}, from rank {} on, "
                              "is not the one that all of its members name",
                              to_string(some_of(ranks)), ranks.size() == 1 ? "names" : "name", lowest));
    }
    for (const std::uint32_t rank : ranks) {
      numbers[rank] = number;
    }
    ++number;
  }
  return numbers;
}

void put_group(std::string& text, const std::optional<RankGroup>& group) {
  put(text, static_cast<std::uint8_t>(group.has_value()));
  if (group) {
    put(text, group->lowest);
    put(text, group->members.high);
    put(text, group->members.low);
  }
}

std::optional<RankGroup> take_group(std::string_view& text) {
  if (take<std::uint8_t>(text) == 0) {
    return std::nullopt;
  }
  RankGroup group;
  group.lowest = take<std::uint32_t>(text);
  group.members.high = take<std::uint64_t>(text);
  group.members.low = take<std::uint64_t>(text);
  return group;
}

}  // namespace cairn
