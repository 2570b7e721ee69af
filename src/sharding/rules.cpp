// SPDX-License-Identifier: Apache-2.0
#include "sharding/rules.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

namespace cairn::sharding_detail {
namespace {

// Rules come from files, too: a few bytes of text must not become boxes without end.
constexpr std::size_t kMaxBoxesOfRank = std::size_t{1} << 16;

/// Part `number` of `count` equal chunks of what some intervals hold together; the last chunks are shorter or empty.
void append_chunk(const std::vector<Interval>& intervals, std::uint64_t count, std::uint64_t number,
                  std::vector<Interval>& out) {
  std::uint64_t length = 0;
  for (const Interval& interval : intervals) {
    length += interval.length;
  }
  const std::uint64_t chunk = length / count + (length % count != 0 ? 1 : 0);
  std::uint64_t skipped = std::min(number * chunk, length);
  std::uint64_t left = std::min(chunk, length - skipped);
  for (const Interval& interval : intervals) {
    const std::uint64_t skip = std::min(skipped, interval.length);
    const std::uint64_t taken = std::min(interval.length - skip, left);
    skipped -= skip;
    left -= taken;
    const std::uint64_t begin = interval.begin + skip;
    if (taken != 0 && !out.empty() && out.back().begin + out.back().length == begin) {
      out.back().length += taken;
    } else if (taken != 0) {
      out.push_back({begin, taken});
    }
  }
  if (out.size() > kMaxBoxesOfRank) {
    throw Error(Errc::invalid_argument, fmt::format("a rank would hold more than {} boxes", kMaxBoxesOfRank));
  }
}

/// The same of one interval.
Interval chunk_of(const Interval& whole, std::uint64_t count, std::uint64_t number) {
  const std::uint64_t chunk = whole.length / count + (whole.length % count != 0 ? 1 : 0);
  const std::uint64_t begin = std::min(number * chunk, whole.length);
  return {whole.begin + begin, std::min(chunk, whole.length - begin)};
}

std::vector<Interval> cut(const std::vector<Interval>& intervals, const Cut& how, std::uint64_t number) {
  std::uint64_t length = 0;
  for (const Interval& interval : intervals) {
    length += interval.length;
  }
  if (how.split_factor == 1 && intervals.size() == 1) {
    return {chunk_of(intervals[0], how.pieces, number)};
  }
  std::vector<Interval> result;
  // Chunks behind the last element are empty: they need no look.
  const std::uint64_t chunks = std::min(how.split_factor, std::max<std::uint64_t>(length, 1));
  for (std::uint64_t i = 0; i < chunks; ++i) {
    std::vector<Interval> chunk;
    append_chunk(intervals, how.split_factor, i, chunk);
    append_chunk(chunk, how.pieces, number, result);
  }
  if (result.empty()) {
    const std::uint64_t chunk = length / how.pieces + (length % how.pieces != 0 ? 1 : 0);
    const bool is_behind = number * chunk >= length;
    const Interval& at = is_behind ? intervals.back() : intervals.front();
    result.push_back({is_behind ? at.begin + at.length : at.begin, 0});
  }
  return result;
}

}  // namespace

void check_rank_count(std::size_t ranks) {
  if (ranks == 0) {
    throw Error(Errc::invalid_argument, "sharding: there are no ranks (world size 0)");
  }
  if (ranks > kMaxRanks) {
    throw Error(Errc::invalid_argument, fmt::format("sharding: {} ranks are more than {}", ranks, kMaxRanks));
  }
}

std::vector<PlacedBox> GridRule::boxes(std::uint32_t rank, const Shape& shape) const {
  check_shape(shape);
  const std::optional<Place> where = place(rank);
  std::vector<PlacedBox> placed;
  if (where) {
    std::vector<Box> boxes = boxes_of_part(where->part, shape);
    placed.reserve(boxes.size());
    for (Box& box : boxes) {
      placed.push_back({std::move(box), where->replica});
    }
  }
  return placed;
}

void GridRule::check_shape(const Shape& shape) const {
  if (cuts_.size() > shape.size()) {
    throw Error(Errc::invalid_argument,
                fmt::format("sharding: cuts dimension {} of an array of shape {}", cuts_.size() - 1, shape));
  }
}

std::uint64_t GridRule::pieces(std::size_t dimension) const noexcept {
  std::uint64_t pieces = 1;
  if (dimension < cuts_.size()) {
    for (const Cut& one : cuts_[dimension]) {
      pieces *= one.pieces;
    }
  }
  return pieces;
}

std::uint32_t GridRule::parts() const noexcept {
  std::uint64_t parts = 1;
  for (std::size_t d = 0; d < cuts_.size(); ++d) {
    parts *= pieces(d);
  }
  return static_cast<std::uint32_t>(parts);
}

std::optional<Interval> GridRule::only_interval(std::size_t dimension, std::uint64_t piece,
                                                std::uint64_t extent) const noexcept {
  Interval result{0, extent};
  if (dimension < cuts_.size()) {
    std::uint64_t below = pieces(dimension);
    for (const Cut& one : cuts_[dimension]) {
      if (one.split_factor != 1) {
        return std::nullopt;
      }
      below /= one.pieces;
      result = chunk_of(result, one.pieces, piece / below % one.pieces);
    }
  }
  return result;
}

std::optional<Box> GridRule::only_box(std::uint32_t part, const Shape& shape) const {
  Shape offsets(shape.size(), 0);
  Shape extents(shape.size(), 0);
  std::uint64_t rest = part;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::uint64_t pieces_here = pieces(d);
    const std::optional<Interval> interval = only_interval(d, rest % pieces_here, shape[d]);
    if (!interval) {
      return std::nullopt;
    }
    rest /= pieces_here;
    offsets[d] = interval->begin;
    extents[d] = interval->length;
  }
  return Box(std::move(offsets), std::move(extents));
}

std::vector<Interval> GridRule::intervals(std::size_t dimension, std::uint64_t piece,
                                          std::uint64_t extent) const {
  if (const std::optional<Interval> only = only_interval(dimension, piece, extent)) {
    return {*only};
  }
  std::vector<Interval> result = {{0, extent}};
  std::uint64_t below = pieces(dimension);
  for (const Cut& one : cuts_[dimension]) {
    below /= one.pieces;
    result = cut(result, one, piece / below % one.pieces);
  }
  return result;
}

std::vector<Box> GridRule::boxes_of_part(std::uint32_t part, const Shape& shape) const {
  if (std::optional<Box> box = only_box(part, shape)) {
    return {*std::move(box)};
  }
  std::vector<std::vector<Interval>> by_dimension(shape.size());
  std::size_t count = 1;
  std::uint64_t rest = part;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::uint64_t pieces_here = pieces(d);
    by_dimension[d] = intervals(d, rest % pieces_here, shape[d]);
    rest /= pieces_here;
    count *= by_dimension[d].size();
    if (count > kMaxBoxesOfRank) {
      throw Error(Errc::invalid_argument,
                  fmt::format("a rank would hold more than {} boxes", kMaxBoxesOfRank));
    }
  }
  std::vector<Box> boxes;
  boxes.reserve(count);
  for (std::size_t number = 0; number < count; ++number) {
    Shape offsets(shape.size(), 0);
    Shape extents(shape.size(), 0);
    std::size_t left = number;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const Interval& interval = by_dimension[d][left % by_dimension[d].size()];
      left /= by_dimension[d].size();
      offsets[d] = interval.begin;
      extents[d] = interval.length;
    }
    boxes.emplace_back(std::move(offsets), std::move(extents));
  }
  return boxes;
}

std::optional<GridRule::Place> MeshRule::place(std::uint32_t rank) const noexcept {
  const std::optional<std::uint32_t> position = mesh_.position_of(rank);
  if (!position) {
    return std::nullopt;
  }
  const auto number = [&](const std::vector<Digit>& digits) {
    std::uint32_t result = 0;
    for (const Digit& digit : digits) {
      result = result * digit.extent + *position / digit.stride % digit.extent;
    }
    return result;
  };
  return Place{number(part_digits_), number(replica_digits_)};
}

void MeshRule::number_by(std::span<const std::size_t> axes) {
  const auto digit = [&](std::size_t axis) {
    return Digit{mesh_.stride(axis), static_cast<std::uint32_t>(mesh_.extents()[axis])};
  };
  for (const std::size_t axis : axes) {
    part_digits_.push_back(digit(axis));
  }
  for (std::size_t axis = 0; axis < mesh_.axes().size(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      replica_digits_.push_back(digit(axis));
    }
  }
}

SpecRule::SpecRule(Mesh mesh_in, std::vector<std::vector<std::string>> spec) : MeshRule(std::move(mesh_in)) {
  while (!spec.empty() && spec.back().empty()) {
    spec.pop_back();  // Redundant, and equal shardings must have equal texts.
  }
  std::vector<std::size_t> used;
  for (std::size_t d = 0; d < spec.size(); ++d) {
    std::uint64_t pieces = 1;
    std::vector<std::size_t>& axes = axes_.emplace_back();
    for (const std::string& name : spec[d]) {
      const std::size_t axis = mesh().axis(name);
      if (std::find(used.begin(), used.end(), axis) != used.end()) {
        throw Error(Errc::invalid_argument,
                    fmt::format("sharding: axis '{}' of ({}) is used twice", name, to_string(mesh())));
      }
      used.push_back(axis);
      axes.push_back(axis);
      pieces *= mesh().extents()[axis];
    }
    cuts_.push_back({Cut{pieces, 1}});
  }
  number_by(used);
}

PlacementRule::PlacementRule(Mesh mesh_in, std::vector<Placement> placements)
    : MeshRule(std::move(mesh_in)), placements_(std::move(placements)) {
  if (placements_.size() != mesh().axes().size()) {
    throw Error(Errc::invalid_argument, fmt::format("sharding: {} placements for the axes of ({})",
                                                    placements_.size(), to_string(mesh())));
  }
  std::vector<std::vector<std::size_t>> axes;
  for (std::size_t axis = 0; axis < placements_.size(); ++axis) {
    Placement& placement = placements_[axis];
    if (placement.split_factor == 0 || placement.split_factor > mesh().size()) {
      throw Error(Errc::invalid_argument,
                  fmt::format("sharding: the split factor {} of axis '{}' is not between 1 and {}",
                              placement.split_factor, mesh().axes()[axis], mesh().size()));
    }
    if (!placement.dimension) {
      placement.split_factor = 1;
      continue;
    }
    if (*placement.dimension >= kMaxRank) {
      throw Error(Errc::invalid_argument, fmt::format("sharding: axis '{}' cuts dimension {}",
                                                      mesh().axes()[axis], *placement.dimension));
    }
    if (*placement.dimension >= cuts_.size()) {
      cuts_.resize(*placement.dimension + 1);
      axes.resize(*placement.dimension + 1);
    }
    cuts_[*placement.dimension].push_back({mesh().extents()[axis], placement.split_factor});
    axes[*placement.dimension].push_back(axis);
  }
  std::vector<std::size_t> used;
  for (const std::vector<std::size_t>& of_dimension : axes) {
    used.insert(used.end(), of_dimension.begin(), of_dimension.end());
  }
  number_by(used);
}

PartsRule::PartsRule(Shape parts, std::vector<std::uint32_t> part_of_rank)
    : parts_(std::move(parts)), part_of_rank_(std::move(part_of_rank)) {
  check_rank_count(part_of_rank_.size());
  std::uint64_t count = 1;
  for (const std::uint64_t number : parts_) {
    if (number == 0 || number > kMaxRanks || (count *= number) > kMaxRanks) {
      throw Error(Errc::invalid_argument, fmt::format("sharding: there is no grid of {} parts", parts_));
    }
    cuts_.push_back({Cut{number, 1}});
  }
  if (count > part_of_rank_.size()) {
    throw Error(Errc::invalid_argument,
                fmt::format("sharding: {} ranks cannot hold the {} parts of a grid of {}",
                            part_of_rank_.size(), count, parts_));
  }
  std::vector<std::uint32_t> holders(count, 0);
  replicas_.resize(part_of_rank_.size(), 0);
  for (std::size_t rank = 0; rank < part_of_rank_.size(); ++rank) {
    const std::uint32_t part = part_of_rank_[rank];
    if (part != Sharding::kNoPart && part >= count) {
      throw Error(Errc::invalid_argument,
                  fmt::format("sharding: rank {} holds part {} of a grid of {}", rank, part, parts_));
    }
    if (part != Sharding::kNoPart) {
      replicas_[rank] = holders[part]++;
    }
  }
}

std::optional<GridRule::Place> PartsRule::place(std::uint32_t rank) const noexcept {
  if (part_of_rank_[rank] == Sharding::kNoPart) {
    return std::nullopt;
  }
  return Place{part_of_rank_[rank], replicas_[rank]};
}

void PartsRule::check_shape(const Shape& shape) const {
  bool fits = shape.size() == parts_.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = shape[d] % parts_[d] == 0;
  }
  if (!fits) {
    throw Error(Errc::invalid_argument,
                fmt::format("sharding: shape {} cannot be cut into {} equal parts", shape, parts_));
  }
}

void TableRule::add(std::uint32_t rank, const Box& box, std::uint32_t replica) {
  if (replicas_.empty()) {
    dimensions_ = box.rank();
  } else if (box.rank() != dimensions_) {
    throw Error(Errc::invalid_argument, fmt::format("sharding: box {} of rank {} does not have {} dimensions",
                                                    to_string(box), rank, dimensions_));
  }
  firsts_.resize(std::size_t{rank} + 1, size32());
  numbers_.insert(numbers_.end(), box.offsets().begin(), box.offsets().end());
  numbers_.insert(numbers_.end(), box.extents().begin(), box.extents().end());
  replicas_.push_back(replica);
}

void TableRule::finish(std::uint32_t ranks) {
  check_rank_count(ranks);
  firsts_.resize(std::size_t{ranks} + 1, size32());
}

Box TableRule::box(std::size_t number) const {
  const std::span<const std::uint64_t> all = numbers(number);
  return {Shape(all.first(dimensions_)), Shape(all.last(dimensions_))};
}

std::vector<PlacedBox> TableRule::boxes(std::uint32_t rank, const Shape& shape) const {
  std::vector<PlacedBox> placed;
  placed.reserve(firsts_[rank + 1] - firsts_[rank]);
  for (std::uint32_t number = firsts_[rank]; number < firsts_[rank + 1]; ++number) {
    PlacedBox& added = placed.emplace_back(PlacedBox{box(number), replicas_[number]});
    if (!added.box.is_within(shape)) {
      throw Error(Errc::invalid_argument, fmt::format("sharding: box {} of rank {} is not within shape {}",
                                                      to_string(added.box), rank, shape));
    }
  }
  return placed;
}

}  // namespace cairn::sharding_detail
