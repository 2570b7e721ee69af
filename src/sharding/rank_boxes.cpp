// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/rank_boxes.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/packed.hpp"
#include "base/internal/value_groups.hpp"
#include "sharding/held_arrays.hpp"

namespace cairn::sharding {
namespace {

/// The boxes of one rank that no rule gives, encoded.
struct Record {
  std::uint32_t rank = 0;
  std::string_view boxes;
};

/// Ranks that say the same rules: those, and a record for each rank.
struct Group {
  std::string_view rules;
  std::vector<Record> records;
};

// What a message has first.
constexpr std::uint8_t kAlike = 0;   // The structure, then the groups.
constexpr std::uint8_t kDiffer = 1;  // The structures, with the ranks that have them.

/// A message, taken apart.
struct Message {
  explicit Message(std::string_view text) {
    const bool do_differ = take<std::uint8_t>(text) == kDiffer;
    if (do_differ) {
      structures = decode_value_groups(text);
    } else {
      structures.push_back({{}, take_text(text)});
      same = take_text(text);
      take_groups(text);
    }
    if (structures.size() < (do_differ ? 2 : 1) || structures[0].ranks.count == 0) {
      refuse_empty();
    }
  }

  void take_groups(std::string_view text) {
    while (!text.empty()) {
      Group& group = groups.emplace_back();
      group.rules = take_text(text);
      std::string_view records = take_text(text);
      while (!records.empty()) {
        Record& record = group.records.emplace_back();
        record.rank = take<std::uint32_t>(records);
        record.boxes = take_bytes(records, take<std::uint64_t>(records));
        structures[0].ranks.add(record.rank);
      }
      if (group.records.empty()) {
        refuse_empty();
      }
    }
  }

  [[noreturn]] static void refuse_empty() {
    throw Error(Errc::malformed_metadata, "message does not name its rank");
  }

  std::vector<ValueGroup> structures;  ///< One, unless ranks differ.
  std::string_view same;               ///< Which arrays are one, as encode_firsts writes it.
  std::vector<Group> groups;           ///< None where they do.
};

void put_group(std::string& text, const Group& group) {
  put_text(text, group.rules);
  std::string records;
  for (const Record& record : group.records) {
    put(records, record.rank);
    put_text(records, record.boxes);
  }
  put_text(text, records);
}

/// For each array the number of the first one that it is the same as, which may be its own; empty where each
/// is its own.
using Firsts = std::vector<std::uint32_t>;

template <class Arrays>
std::string encode_firsts(const Arrays& arrays) {
  std::string text;
  bool are_all_own = true;
  std::uint32_t number = 0;
  for (const auto& array : arrays) {
    put(text, array.same_as.value_or(number++));
    are_all_own = are_all_own && !array.same_as;
  }
  return are_all_own ? std::string() : text;
}

/// Errors: Errc::malformed_metadata where a number is not that of an array that is its own, and comes no later.
Firsts decode_firsts(std::string_view text) {
  Firsts firsts;
  while (!text.empty()) {
    const auto first = take<std::uint32_t>(text);
    const std::size_t number = firsts.size();
    if (first > number || (first < number && firsts[first] != first)) {
      throw Error(Errc::malformed_metadata, fmt::format("array {} is the same as array {}", number, first));
    }
    firsts.push_back(first);
  }
  return firsts;
}

/// The first one of each of so many arrays that is not its own.
std::vector<std::optional<std::uint32_t>> same_of(std::string_view text, std::size_t arrays) {
  const Firsts firsts = decode_firsts(text);
  if (!firsts.empty() && firsts.size() != arrays) {
    throw Error(Errc::malformed_metadata,
                fmt::format("message is about {} arrays, not {}", firsts.size(), arrays));
  }
  std::vector<std::optional<std::uint32_t>> same(arrays);
  for (std::uint32_t i = 0; i < firsts.size(); ++i) {
    if (firsts[i] != i) {
      same[i] = firsts[i];
    }
  }
  return same;
}

/// Arrays that are the same for those who said the one as for those who said the other.
std::string same_for_both(std::string_view one, std::string_view other) {
  const Firsts a = decode_firsts(one);
  const Firsts b = decode_firsts(other);
  std::string text;
  bool are_all_own = true;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> first_of;
  for (std::uint32_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const std::uint32_t first = first_of.emplace(std::pair(a[i], b[i]), i).first->second;
    put(text, first);
    are_all_own = are_all_own && first == i;
  }
  return are_all_own ? std::string() : text;
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

/// The rule of each of so many arrays, or nothing.
std::vector<std::optional<Sharding>> decode_rules(std::string_view rules, std::size_t arrays) {
  std::vector<Sharding> different;
  for (auto left = take<std::uint32_t>(rules); left > 0; --left) {
    const std::string_view json = take_bytes(rules, take<std::uint64_t>(rules));
    different.push_back(Sharding::from_json(json, "a rule of another rank"));
  }
  std::vector<std::optional<Sharding>> by_array(arrays);
  for (std::optional<Sharding>& rule : by_array) {
    const auto number = take<std::uint32_t>(rules);
    if (number > different.size()) {
      throw Error(Errc::malformed_metadata, fmt::format("rule {} of {}", number, different.size()));
    }
    if (number != 0) {
      rule = different[number - 1];
    }
  }
  return by_array;
}

void put_box(std::string& text, const Box& box) {
  for (std::size_t d = 0; d < box.offsets().size(); ++d) {
    put(text, box.offsets()[d]);
    put(text, box.extents()[d]);
  }
}

/// A box of an array of that shape.
Box take_box(std::string_view& text, const Shape& shape) {
  Shape offsets = shape;
  Shape extents = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    offsets[d] = take<std::uint64_t>(text);
    extents[d] = take<std::uint64_t>(text);
  }
  return {std::move(offsets), std::move(extents)};
}

/// With its end, if it has one.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, std::min(text.size(), text.find('\n')) + 1);
  text.remove_prefix(line.size());
  return line;
}

/// Names the first line that is not the same in all of them.
[[noreturn]] void refuse_differences(std::vector<ValueGroup> structures) {
  std::vector<ValueGroup> different;
  const auto has_more = [](const ValueGroup& structure) { return !structure.value.empty(); };
  do {
    std::vector<ValueGroup> lines;
    for (ValueGroup& structure : structures) {
      lines.push_back({structure.ranks, take_line(structure.value)});
    }
    different = merge_value_groups(lines);
  } while (different.size() < 2 && std::any_of(structures.begin(), structures.end(), has_more));
  for (ValueGroup& line : different) {
    const std::string_view shown = line.value.substr(0, line.value.find('\n'));
    line.value = shown.empty() ? "nothing more" : shown;
  }
  throw Error(
      Errc::invalid_argument,
      fmt::format("the ranks do not save the same: {}; a value that each rank has of its own is saved by all "
                  "under one name (of_each_rank)",
                  to_string(different)));
}

/// Puts together what all ranks hold.
class Gathered {
 public:
  Gathered(std::string_view text, std::span<const RankBoxes> mine) : mine_(mine), message_(text) {
    if (message_.structures.size() > 1) {
      refuse_differences(message_.structures);
    }
    for (const Group& group : message_.groups) {
      rules_.push_back(decode_rules(group.rules, mine.size()));
      for (const Record& record : group.records) {
        records_.push_back({record, rules_.size() - 1});
      }
    }
    std::sort(records_.begin(), records_.end(),
              [](const auto& a, const auto& b) { return a.record.rank < b.record.rank; });
  }

  std::vector<PlannedArray> arrays(std::uint32_t ranks) {
    HeldArrays held;
    for (Placed& placed : records_) {
      for (std::size_t i = 0; i < mine_.size(); ++i) {
        add(held, i, placed.record, rules_[placed.group][i]);
      }
    }
    std::vector<PlannedArray> others = held.finish(ranks);
    auto other = others.begin();
    std::vector<PlannedArray> arrays;
    for (std::size_t i = 0; i < mine_.size(); ++i) {
      if (const Sharding* rule = rule_of_all(i)) {
        arrays.push_back({mine_[i].name, mine_[i].dtype, mine_[i].shape, *rule});
      } else if (other != others.end()) {
        arrays.push_back(std::move(*other++));
      }
    }
    const std::vector<std::optional<std::uint32_t>> same = same_of(message_.same, mine_.size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      arrays[i].same_as = same[i];
    }
    return arrays;
  }

 private:
  struct Placed {
    Record record;
    std::size_t group = 0;
  };

  /// Returns the rule by which all ranks say that an array is divided; null where they do not say one.
  [[nodiscard]] const Sharding* rule_of_all(std::size_t array) const {
    return rules_.size() == 1 && rules_[0][array] ? &*rules_[0][array] : nullptr;
  }

  void add(HeldArrays& held, std::size_t number, Record& record, const std::optional<Sharding>& rule) {
    const RankBoxes& array = mine_[number];
    if (rule_of_all(number) != nullptr) {
      return;
    }
    if (rule) {
      return held.add(record.rank, array.name, array.dtype, array.shape,
                      rule->boxes(record.rank, array.shape));
    }
    boxes_.clear();
    for (auto left = take<std::uint32_t>(record.boxes); left > 0; --left) {
      const auto replica = take<std::uint32_t>(record.boxes);
      boxes_.push_back({take_box(record.boxes, array.shape), replica});
    }
    held.add(record.rank, array.name, array.dtype, array.shape, boxes_);
  }

  std::span<const RankBoxes> mine_;
  Message message_;
  std::vector<std::vector<std::optional<Sharding>>> rules_;  // By group and array.
  std::vector<Placed> records_;                              // In the order of the ranks.
  std::vector<PlacedBox> boxes_;
};

}  // namespace

std::string encode_rank_boxes(std::uint32_t rank, std::string_view structure,
                              std::span<const RankBoxes> rank_boxes) {
  std::string boxes;
  for (const RankBoxes& array_boxes : rank_boxes) {
    if (array_boxes.rule) {
      continue;
    }
    put(boxes, static_cast<std::uint32_t>(array_boxes.boxes.size()));
    for (const PlacedBox& placed : array_boxes.boxes) {
      put(boxes, placed.replica);
      put_box(boxes, placed.box);
    }
  }
  const std::string rules = encode_rules(rank_boxes);
  std::string text;
  put(text, kAlike);
  put_text(text, structure);
  put_text(text, encode_firsts(rank_boxes));
  put_group(text, {rules, {{rank, boxes}}});
  return text;
}

std::string merge_rank_boxes(std::span<const std::string> texts) {
  std::vector<ValueGroup> structures;
  std::optional<std::string> same;
  std::vector<Group> groups;
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (const std::string& text : texts) {
    const Message message(text);
    structures.insert(structures.end(), message.structures.begin(), message.structures.end());
    same = same ? same_for_both(*same, message.same) : std::string(message.same);
    for (const Group& group : message.groups) {
      const auto [place, is_new] = numbers.emplace(group.rules, groups.size());
      if (is_new) {
        groups.push_back({group.rules, {}});
      }
      std::vector<Record>& records = groups[place->second].records;
      records.insert(records.end(), group.records.begin(), group.records.end());
    }
  }
  structures = merge_value_groups(structures);
  std::string merged;
  if (structures.size() > 1) {
    put(merged, kDiffer);
    return merged + encode_value_groups(structures);
  }
  put(merged, kAlike);
  put_text(merged, structures[0].value);
  put_text(merged, *same);
  for (const Group& group : groups) {
    put_group(merged, group);
  }
  return merged;
}

std::vector<PlannedArray> decode_rank_boxes(std::string_view text, std::span<const RankBoxes> mine,
                                            std::uint32_t ranks) {
  return Gathered(text, mine).arrays(ranks);
}

std::string encode_same(std::span<const PlannedArray> arrays) {
  std::string text;
  put_text(text, encode_firsts(arrays));
  return text;
}

std::vector<std::optional<std::uint32_t>> take_same(std::string_view& text, std::size_t arrays) {
  return same_of(take_text(text), arrays);
}

std::string encode_assignments(std::span<const WriteAssignment> assignments) {
  std::string text;
  for (const WriteAssignment& assignment : assignments) {
    put(text, assignment.array);
    put_box(text, assignment.box);
  }
  return text;
}

std::vector<WriteAssignment> decode_assignments(std::string_view text, std::span<const RankBoxes> mine) {
  std::vector<WriteAssignment> assignments;
  while (!text.empty()) {
    const auto array = take<std::uint32_t>(text);
    if (array >= mine.size()) {
      throw Error(Errc::malformed_metadata, fmt::format("a share of array {} of {}", array, mine.size()));
    }
    WriteAssignment& assignment = assignments.emplace_back();
    assignment.array = array;
    assignment.box = take_box(text, mine[array].shape);
    if (!assignment.box.is_within(mine[array].shape)) {
      throw Error(Errc::malformed_metadata, fmt::format("'{}': a share of box {}, which is not within it",
                                                        mine[array].name, to_string(assignment.box)));
    }
  }
  return assignments;
}

}  // namespace cairn::sharding
