// SPDX-License-Identifier: Apache-2.0
#include "sharding/array_parts.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/cover.hpp"
#include "sharding/internal/box_table.hpp"

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

/// Finds the parts of an array that is divided by a table.
class TableParts {
 public:
  TableParts(const sharding::PlannedArray& array, const TableRule& table, bool is_covered_by_main)
      : array_(array),
        table_(table),
        is_covered_by_main_(is_covered_by_main),
        ranks_(ranks_of_boxes(table)),
        parts_(std::make_shared<Parts>()) {}

  ArrayParts find() {
    parts_->part_of_box.assign(table_.size(), Sharding::kNoPart);
    const std::vector<std::uint32_t> order = sorted_boxes(table_);
    const auto is_same = [this](std::uint32_t a, std::uint32_t b) {
      const auto left = table_.numbers(a);
      const auto right = table_.numbers(b);
      return std::equal(left.begin(), left.end(), right.begin(), right.end());
    };
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      while (end < order.size() && is_same(order[begin], order[end])) {
        ++end;
      }
      add_part(std::span(order).subspan(begin, end - begin));
    }
    check_elements();
    return {std::move(parts_), std::move(elements_)};
  }

 private:
  /// A box that no rank holds as main replica.
  struct LeftOut {
    Box box;
    SomeRanks ranks;
  };

  /// Takes equal boxes, in the order of their ranks.
  void add_part(std::span<const std::uint32_t> numbers) {
    Box box = table_.box(numbers[0]);
    if (!box.is_within(array_.shape)) {
      refuse_array(Errc::invalid_argument, array_,
                   fmt::format("box {} of rank {} is not within shape {}", to_string(box), ranks_[numbers[0]],
                               array_.shape));
    }
    std::vector<Parts::Holder>& held = held_;
    held.clear();
    for (const std::uint32_t number : numbers) {
      held.push_back({ranks_[number], table_.replica(number)});
    }
    const auto is_main = [](const Parts::Holder& one) { return one.replica == 0; };
    if (is_covered_by_main_ && std::none_of(held.begin(), held.end(), is_main)) {
      return leave_out(std::move(box), held);
    }
    if (held.size() > 1) {
      check_holders(box, held);
    }
    elements_.push_back(*element_count(box.extents()));
    parts_->box_of_part.push_back(numbers[0]);
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (i > 0 && held[i - 1].rank == held[i].rank) {  // Another replica there; the rank writes one if any.
        std::uint32_t& replica = parts_->holders.back().replica;
        replica = std::min(replica, held[i].replica);
        continue;
      }
      parts_->part_of_box[numbers[i]] = static_cast<std::uint32_t>(boxes_.size());
      parts_->holders.push_back(held[i]);
    }
    parts_->firsts.push_back(static_cast<std::uint32_t>(parts_->holders.size()));
    boxes_.push_back(std::move(box));
  }

  void leave_out(Box box, std::span<const Parts::Holder> held) {
    parts_->leaves_out = true;
    LeftOut& left_out = left_out_.emplace_back(LeftOut{std::move(box), {}});
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (i == 0 || held[i - 1].rank != held[i].rank) {
        left_out.ranks.add(held[i].rank);
      }
    }
  }

  /// Refuses replicas of one number. Where main ones are all that counts, other numbers say nothing.
  void check_holders(const Box& box, std::vector<Parts::Holder> held) const {
    std::stable_sort(held.begin(), held.end(),
                     [](const auto& a, const auto& b) { return a.replica < b.replica; });
    for (std::size_t i = 1; i < held.size(); ++i) {
      const std::uint32_t replica = held[i].replica;
      if (held[i - 1].replica != replica || (is_covered_by_main_ && replica != 0)) {
        continue;
      }
      const std::string as = replica == 0 ? "main replica" : fmt::format("replica {}", replica);
      if (held[i - 1].rank == held[i].rank) {
        refuse_array(Errc::overlapping_shards, array_,
                     fmt::format("rank {} holds box {} twice as {}", held[i].rank, to_string(box), as));
      }
      refuse_array(Errc::invalid_argument, array_,
                   fmt::format("ranks {} and {} both hold box {} as {}", held[i - 1].rank, held[i].rank,
                               to_string(box), as));
    }
  }

  void check_elements() const {
    try {
      check_cover(array_.name, Box::whole(array_.shape), boxes_,
                  [this](std::size_t part) { return " of " + to_string(ranks_of(*parts_, part)); });
    } catch (const Error& error) {
      if (error.code() == Errc::incomplete_shards) {
        refuse_left_out();
      }
      throw;
    }
  }

  /// Refuses a box that was left out though it has elements which no main replica has.
  void refuse_left_out() const {
    const sharding::BoxTable covered(boxes_);
    for (const LeftOut& left_out : left_out_) {
      std::uint64_t found = 0;
      if (!boxes_.empty()) {
        for (const sharding::BoxOverlap& overlap : covered.overlaps(left_out.box)) {
          found += *element_count(overlap.shared.extents());
        }
      }
      if (found < *element_count(left_out.box.extents())) {
        refuse_without_main(array_, left_out.box, left_out.ranks);
      }
    }
  }

  const sharding::PlannedArray& array_;
  const TableRule& table_;
  const bool is_covered_by_main_;
  const std::vector<std::uint32_t> ranks_;  // Of each box of the table.
  std::shared_ptr<Parts> parts_;
  std::vector<Parts::Holder> held_;      // Of the part that is added, with all replicas that a rank has.
  std::vector<std::uint64_t> elements_;  // By part, as the boxes.
  std::vector<Box> boxes_;
  std::vector<LeftOut> left_out_;
};

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
  return TableParts(array, dynamic_cast<const TableRule&>(rule), is_covered_by_main_).find();
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

void refuse_without_main(const sharding::PlannedArray& array, const Box& box, const SomeRanks& ranks) {
  refuse_array(Errc::incomplete_shards, array,
               fmt::format("no rank holds box {} of {} as main replica; {} {} it as another", to_string(box),
                           array.shape, to_string(ranks), ranks.count == 1 ? "holds" : "hold"));
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
