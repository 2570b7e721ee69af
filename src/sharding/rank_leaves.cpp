// SPDX-License-Identifier: Apache-2.0
#include "sharding/internal/rank_leaves.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/packed.hpp"
#include "sharding/job_leaves.hpp"
#include "sharding/rank_message.hpp"

namespace cairn::sharding {

using sharding_detail::decode_firsts;
using sharding_detail::Firsts;
using sharding_detail::Leaf;
using sharding_detail::RankMessage;
using sharding_detail::Record;
using sharding_detail::RuleGroup;
using sharding_detail::Structure;

namespace {

/// Arrays that are the same for those who said the one as for those who said the other.
std::string same_for_both(std::string_view one, std::string_view other) {
  const Firsts a = decode_firsts(one);
  const Firsts b = decode_firsts(other);
  std::vector<std::optional<std::uint32_t>> same_as;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> first_of;
  for (std::uint32_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const auto [first, is_new] = first_of.emplace(std::pair(a[i], b[i]), i);
    same_as.push_back(is_new ? std::nullopt : std::optional(first->second));
  }
  return sharding_detail::encode_firsts(same_as);
}

/// The different rules among the arrays, then which of them each array has: a number from 1, or 0.
std::string encode_rules(std::span<const RankBoxes> rank_boxes) {
  std::map<std::string, std::uint32_t, std::less<>> numbers;
  std::unordered_map<const sharding_detail::Rule*, std::uint32_t> known;  // Arrays mostly share theirs.
  std::string layouts;
  std::string by_array;
  for (const RankBoxes& array_boxes : rank_boxes) {
    std::uint32_t number = 0;
    if (array_boxes.rule) {
      std::uint32_t& found = known[&array_boxes.rule->rule()];
      if (found == 0) {
        std::string json = array_boxes.rule->to_json();
        const auto [place, is_new] = numbers.emplace(json, static_cast<std::uint32_t>(numbers.size() + 1));
        found = place->second;
        if (is_new) {
          put_text(layouts, json);
        }
      }
      number = found;
    }
    put(by_array, number);
  }
  std::string rules;
  put(rules, static_cast<std::uint32_t>(numbers.size()));
  return rules + layouts + by_array;
}

std::string encode_boxes(std::span<const RankBoxes> rank_boxes) {
  std::string text;
  for (const RankBoxes& array_boxes : rank_boxes) {
    if (array_boxes.rule) {
      continue;
    }
    put(text, static_cast<std::uint32_t>(array_boxes.boxes.size()));
    for (const PlacedBox& placed : array_boxes.boxes) {
      put(text, placed.replica);
      sharding_detail::put_box(text, placed.box);
    }
  }
  return text;
}

std::string encode_same(std::span<const RankBoxes> rank_boxes) {
  std::vector<std::optional<std::uint32_t>> same_as;
  for (const RankBoxes& array_boxes : rank_boxes) {
    same_as.push_back(array_boxes.same_as);
  }
  return sharding_detail::encode_firsts(same_as);
}

/// Joins the structures of messages: what ranks bring the same leaves is said once, and of these once for those that
/// say the same rules.
class Merger {
 public:
  void add(const Structure& structure) {
    const auto [place, is_new] = numbers_.emplace(structure.leaves, structures_.size());
    if (is_new) {
      structures_.emplace_back().leaves = structure.leaves;
      same_.emplace_back(structure.same);
      groups_.emplace_back();
    } else {
      same_[place->second] = same_for_both(same_[place->second], structure.same);
    }
    std::vector<RuleGroup>& groups = structures_[place->second].groups;
    for (const RuleGroup& group : structure.groups) {
      const auto [known, is_other] = groups_[place->second].emplace(group.rules, groups.size());
      if (is_other) {
        groups.push_back({group.rules, {}});
      }
      std::vector<Record>& records = groups[known->second].records;
      records.insert(records.end(), group.records.begin(), group.records.end());
    }
  }

  /// Gives them to a message that does not outlive this.
  void move_to(RankMessage& message) {
    for (std::size_t i = 0; i < structures_.size(); ++i) {
      structures_[i].same = same_[i];
    }
    message.structures = std::move(structures_);
  }

 private:
  std::vector<Structure> structures_;
  std::vector<std::string> same_;                                          // By structure.
  std::vector<std::unordered_map<std::string_view, std::size_t>> groups_;  // By structure, then rules.
  std::unordered_map<std::string_view, std::size_t> numbers_;              // By leaves.
};

/// Says of structures that should be one which ranks have which.
std::vector<ValueGroup> groups_of(const std::vector<Structure>& structures) {
  std::vector<ValueGroup> groups;
  for (const Structure& structure : structures) {
    groups.push_back({structure.ranks(), structure.leaves});
  }
  return groups;
}

}  // namespace

void LeafList::add(const Leaf& leaf) {
  put_leaf(text_, leaf);
  ++size_;
}

void LeafList::add_value(std::string_view path, std::string_view kind) {
  add({path, Leaf::Kind::value, kind, 0, {}, {}});
}

void LeafList::add_empty_map(std::string_view path) {
  add({path, Leaf::Kind::empty_map, {}, 0, {}, {}});
}

void LeafList::add_list(std::string_view path, std::uint64_t size) {
  add({path, Leaf::Kind::list, {}, size, {}, {}});
}

void LeafList::add_array(std::string_view path, DType dtype, const Shape& shape) {
  add({path, Leaf::Kind::array, {}, 0, dtype, shape});
}

void LeafList::add_array_in_parts(std::string_view path, DType dtype, const Shape& shape) {
  add({path, Leaf::Kind::array_in_parts, {}, 0, dtype, shape});
}

std::string LeafList::path(std::size_t number) const {
  std::string_view text = text_;
  for (; number > 0; --number) {
    static_cast<void>(sharding_detail::take_leaf(text));
  }
  return std::string(sharding_detail::take_leaf(text).path);
}

std::string encode_rank_leaves(const RankLeaves& mine) {
  const std::string same = encode_same(mine.boxes);
  const std::string rules = encode_rules(mine.boxes);
  const std::string boxes = encode_boxes(mine.boxes);
  RankMessage message;
  message.kind = mine.paths == RankPaths::joined ? RankMessage::Kind::joined : RankMessage::Kind::alike;
  message.structures.push_back({mine.leaves.text(), same, {{rules, {}}}});
  message.structures[0].groups[0].records.push_back({mine.rank, own_group(mine.rank, mine.group), boxes});
  return message.encode();
}

std::string merge_rank_leaves(std::span<const std::string> texts) {
  RankMessage merged;
  Merger merger;
  bool is_first = true;
  for (const std::string& text : texts) {
    const RankMessage message(text);
    const bool joins = message.kind == RankMessage::Kind::joined;
    if (!std::exchange(is_first, false) && joins != (merged.kind == RankMessage::Kind::joined)) {
      throw Error(Errc::invalid_argument, "some ranks join their leaves, and others must bring the same");
    }
    if (merged.kind != RankMessage::Kind::different) {
      merged.kind = message.kind;
    }
    merged.different.insert(merged.different.end(), message.different.begin(), message.different.end());
    for (const Structure& structure : message.structures) {
      merger.add(structure);
    }
  }
  merger.move_to(merged);
  if (merged.kind == RankMessage::Kind::joined) {
    return merged.encode();
  }
  if (merged.kind == RankMessage::Kind::different || merged.structures.size() > 1) {
    const std::vector<ValueGroup> others = groups_of(merged.structures);
    merged.different.insert(merged.different.end(), others.begin(), others.end());
    merged.different = merge_value_groups(merged.different);
    merged.kind = RankMessage::Kind::different;
  }
  return merged.encode();
}

std::vector<std::string> plan_answers(std::string_view gathered, std::uint32_t ranks, PlanOptions options) {
  sharding_detail::JobLeaves leaves(gathered, ranks);
  options.group_of_rank = leaves.group_of_rank();
  options.alone_bytes = leaves.alone_bytes();
  return leaves.answers(AssignmentPlan(leaves.take_arrays(), ranks, options));
}

RankAssignments decode_answer(std::string_view answer, const RankLeaves& mine) {
  RankAssignments decoded;
  const std::span<const RankBoxes> arrays = mine.boxes;
  const Firsts firsts = decode_firsts(take_text(answer));
  if (!firsts.empty() && firsts.size() != arrays.size()) {
    throw Error(Errc::malformed_metadata,
                fmt::format("message is about {} arrays, not {}", firsts.size(), arrays.size()));
  }
  decoded.same_as.resize(arrays.size());
  for (std::uint32_t i = 0; i < firsts.size(); ++i) {
    if (firsts[i] != i) {
      decoded.same_as[i] = firsts[i];
    }
  }
  decoded.common = sharding_detail::take_numbers(answer, mine.leaves.size());
  decoded.leaves = sharding_detail::take_numbers(answer, mine.leaves.size());
  std::string_view others = take_text(answer);
  while (!others.empty()) {
    decoded.arrays_of_others.emplace_back(take_text(others));
  }
  if (answer == sharding_detail::kAllThatYouHold) {
    for (std::uint32_t array = 0; array < arrays.size(); ++array) {
      for (const PlacedBox& placed : arrays[array].boxes) {
        const WriteAssignment assignment = {array, placed.box};
        const bool is_replica = !decoded.assignments.empty() && decoded.assignments.back() == assignment;
        if (!is_replica && !decoded.same_as[array]) {  // Replicas follow each other.
          decoded.assignments.push_back(assignment);
        }
      }
    }
    return decoded;
  }
  while (!answer.empty()) {
    const auto array = take<std::uint32_t>(answer);
    if (array >= arrays.size()) {
      throw Error(Errc::malformed_metadata, fmt::format("a share of array {} of {}", array, arrays.size()));
    }
    WriteAssignment& assignment = decoded.assignments.emplace_back();
    assignment.array = array;
    assignment.box = sharding_detail::take_box(answer, arrays[array].shape);
    if (!assignment.box.is_within(arrays[array].shape)) {
      throw Error(Errc::malformed_metadata, fmt::format("'{}': a share of box {}, which is not within it",
                                                        arrays[array].name, to_string(assignment.box)));
    }
  }
  return decoded;
}

}  // namespace cairn::sharding
