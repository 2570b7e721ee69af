// SPDX-License-Identifier: Apache-2.0
#include "sharding/job_leaves.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/sharding/sharding.hpp"

#include "base/internal/packed.hpp"
#include "sharding/held_arrays.hpp"
#include "sharding/rules.hpp"

namespace cairn::sharding_detail {

using sharding::AssignmentPlan;
using sharding::PlannedArray;
using sharding::WriteAssignment;

namespace {

/// Takes the next line of a structure, as people read it; nothing behind the last one.
std::string take_line(std::string_view& leaves) {
  if (leaves.empty()) {
    return "nothing more";
  }
  const Leaf leaf = take_leaf(leaves);
  return fmt::format("{}: {}", shown(leaf.path), describe(leaf));
}

/// Names the first leaf that is not the same in all of them.
[[noreturn]] void refuse_differences(std::vector<ValueGroup> structures) {
  std::vector<std::string> lines;
  std::vector<ValueGroup> different;
  const auto has_more = [](const ValueGroup& structure) { return !structure.value.empty(); };
  do {
    lines.clear();
    for (ValueGroup& structure : structures) {
      lines.push_back(take_line(structure.value));
    }
    std::vector<ValueGroup> groups;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      groups.push_back({structures[i].ranks, lines[i]});
    }
    different = merge_value_groups(groups);
  } while (different.size() < 2 && std::any_of(structures.begin(), structures.end(), has_more));
  throw Error(
      Errc::invalid_argument,
      fmt::format("the ranks do not save the same: {}; a value that each rank has of its own is saved "
                  "by all under one name (of_each_rank), and leaves that only some ranks have are "
                  "joined where that is asked for (ShardingOptions::paths, RankPaths::joined)",
                  to_string(different)));
}

Errc code_of_difference(const Leaf& one, const Leaf& other) {
  if (one.kind != other.kind || one.words != other.words) {
    return Errc::type_mismatch;
  }
  return one.dtype != other.dtype ? Errc::dtype_mismatch : Errc::shape_mismatch;
}

/// Calls `visit` with each path above a path, the nearest first; the last one is the root.
template <class Visit>
void visit_above(std::string_view path, Visit visit) {
  while (!path.empty()) {
    const std::size_t slash = path.rfind('/');
    path = path.substr(0, slash == std::string_view::npos ? 0 : slash);
    visit(path);
  }
}

const GridRule& grid_of(const Sharding& rule) {
  return dynamic_cast<const GridRule&>(rule.rule());  // Those of messages are no tables.
}

bool is_placed(const GridRule& rule, std::uint32_t rank) {
  return rank < rule.ranks() && rule.place(rank).has_value();
}

}  // namespace

JobLeaves::JobLeaves(std::string_view text, std::uint32_t ranks) : message_(text), ranks_(ranks) {
  if (message_.kind == RankMessage::Kind::different) {
    refuse_differences(message_.different);
  }
  for (const Structure& said : message_.structures) {
    add_part(said);
  }
  std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.lowest < b.lowest; });
  for (std::uint32_t part = 0; part < parts_.size(); ++part) {
    add_leaves(part);
  }
  if (parts_.size() > 1) {
    check_containers();
  }
}

void JobLeaves::add_part(const Structure& said) {
  Part& part = parts_.emplace_back();
  part.said = &said;
  for (const RuleGroup& group : said.groups) {
    for (const Record& record : group.records) {
      if (record.rank >= ranks_) {
        throw Error(Errc::malformed_metadata,
                    fmt::format("sharding: rank {} of a job of {} ranks", record.rank, ranks_));
      }
      part.lowest = std::min(part.lowest, record.rank);
    }
  }
}

void JobLeaves::add_leaves(std::uint32_t part_number) {
  Part& part = parts_[part_number];
  std::string_view text = part.said->leaves;
  while (!text.empty()) {
    const Leaf leaf = take_leaf(text);
    const auto [place, is_new] = numbers_.emplace(leaf.path, static_cast<std::uint32_t>(leaves_.size()));
    const std::uint32_t number = place->second;
    if (is_new) {
      Known& added = leaves_.emplace_back();
      added.leaf = leaf;
      added.first = part_number;
      added.array = leaf.kind == Leaf::Kind::array_in_parts ? arrays_++ : kNone;
    }
    Known& known = leaves_[number];
    if (known.last == part_number) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{} is brought twice by {}", shown(leaf.path), to_string(part.said->ranks())));
    }
    if (!known.leaf.is_like(leaf)) {
      refuse_kinds(number, part_number, leaf);
    }
    known.last = part_number;
    ++known.parts;
    part.leaves.push_back(number);
    if (known.array != kNone) {
      part.arrays.push_back(known.array);
    }
  }
}

bool JobLeaves::has_leaf(const Part& part, std::uint32_t leaf) const {
  return std::find(part.leaves.begin(), part.leaves.end(), leaf) != part.leaves.end();
}

void JobLeaves::refuse_kinds(std::uint32_t leaf, std::uint32_t part_number, const Leaf& other) const {
  const Known& known = leaves_[leaf];
  const std::string first = describe(known.leaf);
  const std::string second = describe(other);
  std::vector<ValueGroup> groups;
  for (std::uint32_t part = 0; part < part_number; ++part) {
    if (has_leaf(parts_[part], leaf)) {
      groups.push_back({parts_[part].said->ranks(), first});
    }
  }
  groups.push_back({parts_[part_number].said->ranks(), second});
  throw Error(code_of_difference(known.leaf, other),
              fmt::format("{}: {}", shown(known.leaf.path), to_string(merge_value_groups(groups))));
}

/// Refuses leaves below others. Each rank for itself has none, but where ranks join theirs one may have a leaf where
/// another has a map.
void JobLeaves::check_containers() {
  std::map<std::uint32_t, std::vector<std::uint32_t>> lists;  // Above leaves.
  for (std::uint32_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    visit_above(leaves_[leaf].leaf.path, [&](std::string_view path) {
      const auto found = numbers_.find(path);
      if (found == numbers_.end()) {
        return;
      }
      Known& above = leaves_[found->second];
      if (above.leaf.kind == Leaf::Kind::list) {
        lists[leaf].push_back(found->second);
      } else if (above.leaf.kind == Leaf::Kind::empty_map) {
        above.is_written = false;
      } else {
        refuse_below(found->second, leaf);
      }
    });
  }
  std::vector<std::uint32_t> last_part(leaves_.size(), kNone);  // That has the leaf.
  for (std::uint32_t part = 0; part < parts_.size() && !lists.empty(); ++part) {
    for (const std::uint32_t leaf : parts_[part].leaves) {
      last_part[leaf] = part;
    }
    for (const std::uint32_t leaf : parts_[part].leaves) {
      const auto above = lists.find(leaf);
      if (above == lists.end()) {
        continue;
      }
      for (const std::uint32_t list : above->second) {
        if (last_part[list] != part) {
          refuse_below(list, leaf);
        }
      }
    }
  }
}

void JobLeaves::refuse_below(std::uint32_t above, std::uint32_t below) const {
  SomeRanks with_above;
  SomeRanks with_below;
  for (const Part& part : parts_) {
    if (has_leaf(part, above)) {
      with_above.add(part.said->ranks());
    } else if (has_leaf(part, below)) {
      with_below.add(part.said->ranks());
    }
  }
  throw Error(Errc::type_mismatch,
              fmt::format("{} is {} on {}, and {} lies below it on {}", shown(leaves_[above].leaf.path),
                          describe(leaves_[above].leaf), to_string(with_above),
                          shown(leaves_[below].leaf.path), to_string(with_below)));
}

std::vector<std::uint32_t> JobLeaves::group_of_rank() const {
  std::vector<std::optional<RankGroup>> by_rank(ranks_);
  for (const Part& part : parts_) {
    for (const RuleGroup& group : part.said->groups) {
      for (const Record& record : group.records) {
        by_rank[record.rank] = record.group;
      }
    }
  }
  return number_groups(by_rank);
}

std::vector<std::uint64_t> JobLeaves::alone_bytes() const {
  std::vector<std::uint64_t> bytes(ranks_);
  for (const Known& known : leaves_) {
    if (known.leaf.kind == Leaf::Kind::array) {
      bytes[parts_[known.first].lowest] += byte_count(known.leaf.dtype, known.leaf.shape).value_or(0);
    }
  }
  return bytes;
}

/// The rule of each of so many arrays, or 0.
std::vector<std::uint32_t> JobLeaves::decode_rules(std::string_view rules, std::size_t arrays) {
  std::vector<std::uint32_t> different;
  for (auto left = take<std::uint32_t>(rules); left > 0; --left) {
    const std::string_view json = take_text(rules);
    const auto [place, is_new] = rule_numbers_.emplace(json, static_cast<std::uint32_t>(rules_.size() + 1));
    if (is_new) {
      rules_.push_back(Sharding::from_json(json, "a rule of another rank"));
      if (rules_.back().kind() == Sharding::Kind::table) {
        throw Error(Errc::malformed_metadata, "a rule of another rank is a table");
      }
    }
    different.push_back(place->second);
  }
  std::vector<std::uint32_t> by_array(arrays);
  for (std::uint32_t& rule : by_array) {
    const auto number = take<std::uint32_t>(rules);
    if (number > different.size()) {
      throw Error(Errc::malformed_metadata, fmt::format("rule {} of {}", number, different.size()));
    }
    rule = number == 0 ? 0 : different[number - 1];
  }
  return by_array;
}

/// How many ranks of a part have something by a rule, whatever the array.
std::size_t JobLeaves::ranks_in(std::uint32_t rule, const Part& part) const {
  const GridRule& grid = grid_of(rules_[rule - 1]);
  std::size_t count = 0;
  for (const RuleGroup& group : part.said->groups) {
    for (const Record& record : group.records) {
      count += is_placed(grid, record.rank) ? 1U : 0U;
    }
  }
  return count;
}

/// The rule by which each array is divided, or 0: the one that all ranks say which have the array, if it gives nothing
/// to any other.
std::vector<std::uint32_t> JobLeaves::rules_of_arrays() {
  std::vector<std::uint32_t> rules(arrays_, kNone);
  for (Part& part : parts_) {
    for (const RuleGroup& group : part.said->groups) {
      const std::vector<std::uint32_t>& said =
          part.rules.emplace_back(decode_rules(group.rules, part.arrays.size()));
      for (std::size_t i = 0; i < said.size(); ++i) {
        std::uint32_t& rule = rules[part.arrays[i]];
        rule = rule == kNone || rule == said[i] ? said[i] : 0;
      }
    }
  }
  if (parts_.size() == 1) {
    return rules;
  }
  std::vector<std::size_t> placed(arrays_);  // How many of the ranks that have it, by its rule.
  for (const Part& part : parts_) {
    std::map<std::uint32_t, std::size_t> counts;
    for (const std::uint32_t array : part.arrays) {
      if (rules[array] != 0) {
        const auto [count, is_new] = counts.emplace(rules[array], 0);
        count->second = is_new ? ranks_in(rules[array], part) : count->second;
        placed[array] += count->second;
      }
    }
  }
  std::map<std::uint32_t, std::size_t> counts;  // Of all ranks.
  for (std::uint32_t array = 0; array < arrays_; ++array) {
    if (rules[array] == 0) {
      continue;
    }
    const auto [count, is_new] = counts.emplace(rules[array], 0);
    if (is_new) {
      const GridRule& grid = grid_of(rules_[rules[array] - 1]);
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        count->second += is_placed(grid, rank) ? 1U : 0U;
      }
    }
    rules[array] = placed[array] == count->second ? rules[array] : 0;
  }
  return rules;
}

/// The arrays that no rule divides, in the order of their numbers, with what each rank says it holds.
std::vector<PlannedArray> JobLeaves::tables(const std::vector<std::uint32_t>& rules) const {
  struct Speaker {
    std::uint32_t rank = 0;
    const Part* part = nullptr;
    const std::vector<std::uint32_t>* rules = nullptr;
    std::string_view boxes;
  };

  std::vector<Speaker> speakers;
  for (const Part& part : parts_) {
    for (std::size_t group = 0; group < part.rules.size(); ++group) {
      for (const Record& record : part.said->groups[group].records) {
        speakers.push_back({record.rank, &part, &part.rules[group], record.boxes});
      }
    }
  }
  std::sort(speakers.begin(), speakers.end(),
            [](const Speaker& a, const Speaker& b) { return a.rank < b.rank; });
  std::vector<const Leaf*> arrays(arrays_);
  for (const Known& known : leaves_) {
    if (known.array != kNone) {
      arrays[known.array] = &known.leaf;
    }
  }
  HeldArrays held;
  std::vector<PlacedBox> boxes;
  for (Speaker& speaker : speakers) {
    for (std::size_t i = 0; i < speaker.part->arrays.size(); ++i) {
      const std::uint32_t array = speaker.part->arrays[i];
      const std::uint32_t rule = (*speaker.rules)[i];
      const Leaf& leaf = *arrays[array];
      if (rules[array] != 0) {
        continue;
      }
      if (rule != 0) {
        held.add(speaker.rank, leaf.path, leaf.dtype, leaf.shape,
                 rules_[rule - 1].boxes(speaker.rank, leaf.shape));
        continue;
      }
      boxes.clear();
      for (auto left = take<std::uint32_t>(speaker.boxes); left > 0; --left) {
        const auto replica = take<std::uint32_t>(speaker.boxes);
        boxes.push_back({take_box(speaker.boxes, leaf.shape), replica});
      }
      held.add(speaker.rank, leaf.path, leaf.dtype, leaf.shape, boxes);
    }
  }
  return held.finish(ranks_);
}

std::vector<PlannedArray> JobLeaves::take_arrays() {
  const std::vector<std::uint32_t> rules = rules_of_arrays();
  std::vector<PlannedArray> others = tables(rules);
  const std::vector<std::optional<std::uint32_t>> same = same_arrays();
  auto other = others.begin();
  std::vector<PlannedArray> arrays;
  for (const Known& known : leaves_) {
    if (known.array == kNone) {
      continue;
    }
    if (const std::uint32_t rule = rules[known.array]; rule != 0) {
      arrays.push_back({std::string(known.leaf.path), known.leaf.dtype, known.leaf.shape, rules_[rule - 1]});
    } else {  // Both are in the order in which the lowest ranks name them.
      arrays.push_back(std::move(*other++));
    }
    arrays.back().same_as = same[known.array];
  }
  return arrays;
}

/// Two arrays are one where each rank has both and they are one for it, or has neither.
std::vector<std::optional<std::uint32_t>> JobLeaves::same_arrays() const {
  std::vector<Firsts> firsts;   // By part; empty where all are their own.
  std::set<std::uint32_t> all;  // The arrays that may be one with another for some rank.
  for (const Part& part : parts_) {
    const Firsts& here = firsts.emplace_back(decode_firsts(part.said->same));
    if (!here.empty() && here.size() != part.arrays.size()) {
      throw Error(Errc::malformed_metadata,
                  fmt::format("message is about {} arrays, not {}", here.size(), part.arrays.size()));
    }
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (here[i] != i) {
        all.insert({part.arrays[i], part.arrays[here[i]]});
      }
    }
  }
  std::vector<std::optional<std::uint32_t>> same(arrays_);
  std::map<std::uint32_t, std::uint32_t> classes;  // Of those arrays: equal where they are one so far.
  for (const std::uint32_t array : all) {
    classes.emplace(array, 0);
  }
  for (std::size_t part = 0; part < parts_.size() && !all.empty(); ++part) {
    std::map<std::uint32_t, std::uint32_t> here;  // The first own one, counted from 1; 0: the ranks lack it.
    for (std::size_t i = 0; i < parts_[part].arrays.size(); ++i) {
      if (all.contains(parts_[part].arrays[i])) {
        here[parts_[part].arrays[i]] =
            1 + (firsts[part].empty() ? static_cast<std::uint32_t>(i) : firsts[part][i]);
      }
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> next;
    for (auto& [array, number] : classes) {
      const auto size = static_cast<std::uint32_t>(next.size());
      number = next.emplace(std::pair(number, here[array]), size).first->second;
    }
  }
  std::map<std::uint32_t, std::uint32_t> first_of;
  for (const auto& [array, number] : classes) {
    const auto [first, is_new] = first_of.emplace(number, array);
    if (!is_new) {
      same[array] = first->second;
    }
  }
  return same;
}

/// The numbers of a part's own leaves that all ranks have, in the order of all leaves.
std::vector<std::uint32_t> JobLeaves::common_of(const Part& part) const {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> common;
  for (std::uint32_t own = 0; own < part.leaves.size(); ++own) {
    if (leaves_[part.leaves[own]].parts == parts_.size()) {
      common.emplace_back(part.leaves[own], own);
    }
  }
  std::sort(common.begin(), common.end());
  std::vector<std::uint32_t> own_numbers;
  for (const auto& [number, own] : common) {
    own_numbers.push_back(own);
  }
  return own_numbers;
}

/// The numbers of a part's own leaves that its lowest rank writes. An array without elements is no rank's assignment.
std::vector<std::uint32_t> JobLeaves::written_of(std::uint32_t part_number) const {
  std::vector<std::uint32_t> written;
  const Part& part = parts_[part_number];
  for (std::uint32_t own = 0; own < part.leaves.size(); ++own) {
    const Known& known = leaves_[part.leaves[own]];
    const bool is_assigned = known.array != kNone && element_count(known.leaf.shape) != 0;
    if (known.first == part_number && known.is_written && !is_assigned) {
      written.push_back(own);
    }
  }
  return written;
}

/// The paths of the arrays that the first part does not have, which is that of rank 0.
std::string JobLeaves::arrays_of_others() const {
  std::string text;
  for (const Known& known : leaves_) {
    const bool is_array = known.array != kNone || known.leaf.kind == Leaf::Kind::array;
    if (is_array && known.first != 0) {
      put_text(text, known.leaf.path);
    }
  }
  return text;
}

/// Which of a part's own arrays are further names of others.
std::string JobLeaves::same_in(const Part& part, const AssignmentPlan& plan,
                               const std::vector<std::uint32_t>& own_number) const {
  std::vector<std::optional<std::uint32_t>> same;
  for (const std::uint32_t array : part.arrays) {
    const std::optional<std::uint32_t> first = plan.arrays()[array].same_as;
    same.push_back(first ? std::optional(own_number[*first]) : std::nullopt);
  }
  return encode_firsts(same);
}

std::vector<std::string> JobLeaves::answers(const AssignmentPlan& plan) const {
  const bool joins = message_.kind == RankMessage::Kind::joined;
  const bool write_all = plan.has_no_copies();
  std::vector<std::string> answers(ranks_);
  std::vector<std::uint32_t> own_number(arrays_);  // Of each array of the part.
  for (std::uint32_t number = 0; number < parts_.size(); ++number) {
    const Part& part = parts_[number];
    for (std::uint32_t own = 0; own < part.arrays.size(); ++own) {
      own_number[part.arrays[own]] = own;
    }
    std::string head;
    put_text(head, same_in(part, plan, own_number));
    put_numbers(head, joins ? common_of(part) : std::vector<std::uint32_t>());
    for (const RuleGroup& group : part.said->groups) {
      for (const Record& record : group.records) {
        std::string& answer = answers[record.rank] = head;
        const bool writes_leaves = joins && record.rank == part.lowest;
        put_numbers(answer, writes_leaves ? written_of(number) : std::vector<std::uint32_t>());
        put_text(answer, joins && record.rank == 0 ? arrays_of_others() : std::string());
        if (write_all) {
          answer += kAllThatYouHold;
          continue;
        }
        std::vector<WriteAssignment> assignments = plan.assignments(record.rank);
        for (WriteAssignment& assignment : assignments) {
          assignment.array = own_number[assignment.array];
        }
        std::stable_sort(assignments.begin(), assignments.end(),
                         [](const auto& a, const auto& b) { return a.array < b.array; });
        for (const WriteAssignment& assignment : assignments) {
          put(answer, assignment.array);
          put_box(answer, assignment.box);
        }
      }
    }
  }
  return answers;
}

}  // namespace cairn::sharding_detail
