// SPDX-License-Identifier: Apache-2.0
#include "sharding/array_parts.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/cover.hpp"

namespace cairn::sharding_detail {
namespace {

[[noreturn]] void refuse_array(Errc code, const sharding::PlannedArray& array, const std::string& why) {
  throw Error(code, fmt::format("'{}': {}", array.name, why));
}

/// Returns which ranks hold each part of a grid: it sorts by part and keeps the order of the ranks.
Parts parts_of_grid(const GridRule& rule) {
  Parts parts;
  parts.firsts.assign(std::size_t{rule.parts()} + 1, 0);
  for (std::uint32_t rank = 0; rank < rule.ranks(); ++rank) {
    if (const auto place = rule.place(rank)) {
      ++parts.firsts[place->part + 1];
    }
  }
  std::partial_sum(parts.firsts.begin(), parts.firsts.end(), parts.firsts.begin());
  parts.holders.resize(parts.firsts.back());
  std::vector<std::uint32_t> next(parts.firsts.begin(), parts.firsts.end() - 1);
  for (std::uint32_t rank = 0; rank < rule.ranks(); ++rank) {
    if (const auto place = rule.place(rank)) {
      parts.holders[next[place->part]++] = {rank, place->replica};
    }
  }
  return parts;
}

/// Refuses an array that is divided by a rule of whose parts some have no holder.
[[noreturn]] void refuse_gap(const sharding::PlannedArray& array, const GridRule& rule, const Parts& parts) {
  std::vector<Box> boxes;
  std::vector<std::size_t> part_of_box;
  for (std::uint32_t part = 0; part < parts.count(); ++part) {
    for (Box& box : rule.boxes_of_part(part, array.shape)) {
      if (!parts.holders_of(part).empty()) {
        boxes.push_back(std::move(box));
        part_of_box.push_back(part);
      }
    }
  }
  check_cover(array.name, Box::whole(array.shape), boxes,
              [&](std::size_t number) { return " of " + to_string(ranks_of(parts, part_of_box[number])); });
  refuse_array(Errc::incomplete_shards, array, "no rank holds some elements");
}

/// How many elements each piece of a dimension has.
std::vector<std::uint64_t> lengths_of(const GridRule& rule, std::size_t dimension, std::uint64_t extent) {
  std::vector<std::uint64_t> lengths(rule.pieces(dimension), 0);
  for (std::size_t piece = 0; piece < lengths.size(); ++piece) {
    for (const Interval& interval : rule.intervals(dimension, piece, extent)) {
      lengths[piece] += interval.length;
    }
  }
  return lengths;
}

/// Which rank each box of a table belongs to.
std::vector<std::uint32_t> ranks_of_boxes(const TableRule& table) {
  std::vector<std::uint32_t> ranks(table.size());
  for (std::uint32_t rank = 0; rank < table.ranks(); ++rank) {
    std::fill(ranks.begin() + table.first(rank), ranks.begin() + table.first(rank + 1), rank);
  }
  return ranks;
}

/// The numbers of the boxes that have elements, equal ones side by side, those of lower ranks first.
std::vector<std::uint32_t> sorted_boxes(const TableRule& table) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t number = 0; number < table.size(); ++number) {
    const auto extents = table.numbers(number).last(table.dimensions());
    if (std::find(extents.begin(), extents.end(), std::uint64_t{0}) == extents.end()) {
      order.push_back(number);
    }
  }
  const auto comes_before = [&](std::uint32_t a, std::uint32_t b) {
    const auto left = table.numbers(a);
    const auto right = table.numbers(b);
    return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end());
  };
  if (!std::is_sorted(order.begin(), order.end(), comes_before)) {
    std::stable_sort(order.begin(), order.end(), comes_before);
  }
  return order;
}

/// Refuses replicas of one number; `held` is in the order of the ranks.
void check_holders(const sharding::PlannedArray& array, const Box& box, std::vector<Parts::Holder> held) {
  std::stable_sort(held.begin(), held.end(),
                   [](const auto& a, const auto& b) { return a.replica < b.replica; });
  for (std::size_t i = 1; i < held.size(); ++i) {
    if (held[i - 1].replica != held[i].replica) {
      continue;
    }
    if (held[i - 1].rank == held[i].rank) {
      refuse_array(Errc::overlapping_shards, array,
                   fmt::format("rank {} holds box {} twice as replica {}", held[i].rank, to_string(box),
                               held[i].replica));
    }
    refuse_array(Errc::invalid_argument, array,
                 fmt::format("ranks {} and {} both call box {} replica {}", held[i - 1].rank, held[i].rank,
                             to_string(box), held[i].replica));
  }
}

}  // namespace

ArrayParts PartsFinder::find(const sharding::PlannedArray& array) {
  if (array.sharding.ranks() > ranks_) {
    refuse_array(Errc::invalid_argument, array,
                 fmt::format("is divided among {} ranks in a job of {}", array.sharding.ranks(), ranks_));
  }
  if (!byte_count(array.dtype, array.shape)) {
    refuse_array(Errc::invalid_argument, array,
                 fmt::format("an array of {} and shape {} is not a whole number of bytes below 2^63",
                             array.dtype, array.shape));
  }
  const Rule& rule = array.sharding.rule();
  if (const auto* grid = dynamic_cast<const GridRule*>(&rule)) {
    return find_in_grid(array, *grid);
  }
  return find_in_table(array, dynamic_cast<const TableRule&>(rule));
}

PartsFinder::GridEntry& PartsFinder::entry_of(const sharding::PlannedArray& array, const GridRule& rule) {
  GridEntry*& known = by_rule_[&rule];
  if (known == nullptr) {
    known = &grids_[array.sharding.to_json()];
  }
  if (!known->parts) {
    known->parts = std::make_shared<Parts>(parts_of_grid(rule));
  }
  return *known;
}

ArrayParts PartsFinder::find_in_grid(const sharding::PlannedArray& array, const GridRule& rule) {
  try {
    rule.check_shape(array.shape);
  } catch (const Error& error) {
    refuse_array(Errc::invalid_argument, array, error.detail());
  }
  GridEntry& entry = entry_of(array, rule);
  std::vector<std::uint64_t> elements(1, 1);
  for (std::size_t d = 0; d < array.shape.size(); ++d) {
    std::vector<std::uint64_t>& lengths = entry.lengths[{d, array.shape[d]}];
    if (lengths.empty()) {
      lengths = lengths_of(rule, d, array.shape[d]);
    }
    std::vector<std::uint64_t> product;
    product.reserve(elements.size() * lengths.size());
    for (const std::uint64_t before : elements) {
      for (const std::uint64_t length : lengths) {
        product.push_back(before * length);
      }
    }
    elements = std::move(product);
  }
  for (std::uint32_t part = 0; part < elements.size(); ++part) {
    if (elements[part] != 0 && entry.parts->holders_of(part).empty()) {
      refuse_gap(array, rule, *entry.parts);
    }
  }
  return {entry.parts, std::move(elements)};
}

ArrayParts PartsFinder::find_in_table(const sharding::PlannedArray& array, const TableRule& table) {
  auto parts = std::make_shared<Parts>();
  std::vector<std::uint64_t> elements;
  std::vector<Box> boxes;
  std::vector<Parts::Holder> held;  // Of one part, with all replicas that a rank has.
  const std::vector<std::uint32_t> ranks = ranks_of_boxes(table);
  const auto finish_part = [&] {
    if (!boxes.empty()) {
      parts->firsts.push_back(static_cast<std::uint32_t>(parts->holders.size()));
      check_holders(array, boxes.back(), std::move(held));
      held.clear();
    }
  };
  parts->part_of_box.assign(table.size(), Sharding::kNoPart);
  for (const std::uint32_t number : sorted_boxes(table)) {
    Box box = table.box(number);
    if (boxes.empty() || boxes.back() != box) {
      finish_part();
      if (!box.is_within(array.shape)) {
        refuse_array(Errc::invalid_argument, array,
                     fmt::format("box {} of rank {} is not within shape {}", to_string(box), ranks[number],
                                 array.shape));
      }
      elements.push_back(*element_count(box.extents()));
      parts->box_of_part.push_back(number);
      boxes.push_back(std::move(box));
    }
    const Parts::Holder holder = {ranks[number], table.replica(number)};
    const bool is_held_again = !held.empty() && held.back().rank == holder.rank;
    held.push_back(holder);
    if (is_held_again) {  // Another replica on the same rank, which writes one of them if any.
      std::uint32_t& replica = parts->holders.back().replica;
      replica = std::min(replica, holder.replica);
      continue;
    }
    parts->part_of_box[number] = static_cast<std::uint32_t>(boxes.size() - 1);
    parts->holders.push_back(holder);
  }
  finish_part();
  check_cover(array.name, Box::whole(array.shape), boxes,
              [&parts](std::size_t part) { return " of " + to_string(ranks_of(*parts, part)); });
  return {std::move(parts), std::move(elements)};
}

SomeRanks ranks_of(const Parts& parts, std::size_t part) {
  SomeRanks ranks;
  for (const Parts::Holder& holder : parts.holders_of(part)) {
    ranks.add(holder.rank);
  }
  return ranks;
}

std::vector<Box> boxes_of_part(const sharding::PlannedArray& array, const Parts& parts, std::uint32_t part) {
  const Rule& rule = array.sharding.rule();
  if (const auto* grid = dynamic_cast<const GridRule*>(&rule)) {
    std::vector<Box> boxes = grid->boxes_of_part(part, array.shape);
    std::erase_if(boxes, [](const Box& box) { return box.is_empty(); });
    return boxes;
  }
  return {dynamic_cast<const TableRule&>(rule).box(parts.box_of_part[part])};
}

}  // namespace cairn::sharding_detail
