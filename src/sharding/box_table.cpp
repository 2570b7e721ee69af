// SPDX-License-Identifier: Apache-2.0
#include "sharding/internal/box_table.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::sharding {
namespace {

constexpr std::size_t kFan = 16;

bool comes_before(const Box& a, const Box& b) {
  return std::lexicographical_compare(a.offsets().begin(), a.offsets().end(), b.offsets().begin(),
                                      b.offsets().end());
}

}  // namespace

BoxTable::BoxTable(std::span<const Box> boxes) : order_(boxes.size()) {
  if (boxes.empty()) {
    return;
  }
  rank_ = boxes[0].rank();
  for (const Box& box : boxes) {
    if (box.rank() != rank_) {
      throw Error(Errc::invalid_argument,
                  fmt::format("boxes {} and {} differ in rank", to_string(boxes[0]), to_string(box)));
    }
  }
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (!std::is_sorted(boxes.begin(), boxes.end(), comes_before)) {
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return comes_before(boxes[a], boxes[b]); });
  }
  Level& all = levels_.emplace_back();
  for (const std::size_t number : order_) {
    for (std::size_t d = 0; d < rank_; ++d) {
      all.begins.push_back(boxes[number].begin(d));
      // An empty box meets nothing, nor does one that ends before everything.
      all.ends.push_back(boxes[number].is_empty() ? 0 : boxes[number].end(d));
    }
  }
  while (rank_ > 0 && levels_.back().begins.size() > kFan * rank_) {
    add_level();
  }
}

void BoxTable::add_level() {
  Level level;
  const Level& below = levels_.back();
  const std::size_t nodes = below.begins.size() / rank_;
  for (std::size_t first = 0; first < nodes; first += kFan) {
    for (std::size_t d = 0; d < rank_; ++d) {
      std::uint64_t begin = UINT64_MAX;
      std::uint64_t end = 0;
      for (std::size_t node = first; node < std::min(first + kFan, nodes); ++node) {
        begin = std::min(begin, below.begins[node * rank_ + d]);
        end = std::max(end, below.ends[node * rank_ + d]);
      }
      level.begins.push_back(begin);
      level.ends.push_back(end);
    }
  }
  levels_.push_back(std::move(level));
}

bool BoxTable::meets(const Level& level, std::size_t node, const Box& wanted) const noexcept {
  for (std::size_t d = 0; d < rank_; ++d) {
    if (level.begins[node * rank_ + d] >= wanted.end(d) || level.ends[node * rank_ + d] <= wanted.begin(d)) {
      return false;
    }
  }
  return true;
}

std::vector<BoxOverlap> BoxTable::overlaps(const Box& wanted) const {
  std::vector<BoxOverlap> result;
  if (order_.empty()) {
    return result;
  }
  if (wanted.rank() != rank_) {
    throw Error(Errc::invalid_argument,
                fmt::format("box {} does not have {} dimensions", to_string(wanted), rank_));
  }
  if (wanted.is_empty()) {
    return result;
  }
  // Level by level, from the top: the nodes that meet the box, in order.
  const std::size_t top_nodes = rank_ == 0 ? order_.size() : levels_.back().begins.size() / rank_;
  std::vector<std::size_t> nodes(top_nodes);
  std::iota(nodes.begin(), nodes.end(), std::size_t{0});
  for (std::size_t i = levels_.size(); i-- > 0;) {
    std::erase_if(nodes, [&](std::size_t node) { return !meets(levels_[i], node, wanted); });
    if (i == 0) {
      break;
    }
    const std::size_t below = levels_[i - 1].begins.size() / rank_;
    std::vector<std::size_t> children;
    for (const std::size_t node : nodes) {
      for (std::size_t child = node * kFan; child < std::min((node + 1) * kFan, below); ++child) {
        children.push_back(child);
      }
    }
    nodes = std::move(children);
  }
  for (const std::size_t node : nodes) {
    Shape offsets(rank_, 0);
    Shape extents(rank_, 0);
    for (std::size_t d = 0; d < rank_; ++d) {
      offsets[d] = std::max(levels_[0].begins[node * rank_ + d], wanted.begin(d));
      extents[d] = std::min(levels_[0].ends[node * rank_ + d], wanted.end(d)) - offsets[d];
    }
    result.push_back({order_[node], Box(std::move(offsets), std::move(extents))});
  }
  return result;
}

}  // namespace cairn::sharding
