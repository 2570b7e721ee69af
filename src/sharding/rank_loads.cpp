// SPDX-License-Identifier: Apache-2.0
#include "sharding/rank_loads.hpp"

#include <algorithm>
#include <utility>

#include "base/internal/checked.hpp"

namespace cairn::sharding_detail {
namespace {

// Fractions of a share. A rank ends at most 5 % above the level of its group, and the number of pieces stays small.
constexpr std::uint64_t kTolerancePercent = 2;
constexpr std::uint64_t kSmallestCut = 32;    // Parts below 1 / 32 are given whole.
constexpr std::uint64_t kSmallestPiece = 64;  // A rank with less room than 1 / 64 is full.
// Pieces end at rows. What one has too much is there to stay; what it has too little may come with a later part.
constexpr std::uint64_t kMostAbove = 50;
constexpr std::uint64_t kMostBelow = 20;

// Whatever rounding has left, one rank of a group that expects something is not full: its room is at least the
// tolerance.
static_assert(kSmallestPiece * kTolerancePercent >= 100);

using Wide = unsigned __int128;  // Sums of sizes.

/// The level that water has when `bytes` are poured over loads, the lowest of which come first.
std::uint64_t water_level(std::span<const std::uint64_t> loads, std::uint64_t bytes) {
  Wide sum = bytes;
  std::size_t count = 0;
  while (count < loads.size() && Wide{loads[count]} * count <= sum) {
    sum += loads[count++];
  }
  return static_cast<std::uint64_t>((sum + count - 1) / count);
}

std::uint64_t difference(std::uint64_t a, std::uint64_t b) {
  return a - std::min(a, b);
}

}  // namespace

bool RankLoads::has_more(const Entry& a, const Entry& b) noexcept {
  return a.bytes != b.bytes ? a.bytes > b.bytes : a.rank > b.rank;
}

void RankLoads::pop(std::vector<Entry>& heap) {
  std::pop_heap(heap.begin(), heap.end(), has_more);
  heap.pop_back();
}

void RankLoads::push(std::vector<Entry>& heap, Entry entry) {
  heap.push_back(entry);
  std::push_heap(heap.begin(), heap.end(), has_more);
}

RankLoads::Group RankLoads::group_of(std::vector<std::uint32_t> ranks) {
  const auto [place, is_new] = groups_.emplace(std::move(ranks), static_cast<Group>(members_.size()));
  if (is_new) {
    members_.emplace_back().ranks = &place->first;
  }
  return place->second;
}

void RankLoads::expect(Group group, std::uint64_t bytes) {
  std::uint64_t& expected = members_[group].expected_bytes;
  expected = checked_add(expected, bytes).value_or(UINT64_MAX);
}

void RankLoads::settle(Group group, std::uint64_t bytes) {
  Members& members = members_[group];
  members.expected_bytes = difference(members.expected_bytes, bytes);
  if (members.expected_bytes == 0) {
    members.heap = {};  // Nothing more will be given to it.
  }
}

std::uint32_t RankLoads::least_loaded(Group group) {
  return least(members_[group]).rank;
}

bool RankLoads::is_too_much(std::uint64_t bytes, Group group) {
  if (bytes <= share_ / kSmallestCut) {
    return false;
  }
  Members& members = members_[group];
  if (!members.level) {
    members.level = level_of(members);
  }
  return least(members).bytes + bytes > *members.level + tolerance();
}

bool RankLoads::is_close(std::uint64_t bytes, std::uint64_t wanted) const noexcept {
  return difference(bytes, wanted) <= share_ / kMostAbove && difference(wanted, bytes) <= share_ / kMostBelow;
}

std::uint64_t RankLoads::tolerance() const noexcept {
  return share_ / 100 * kTolerancePercent + share_ % 100 * kTolerancePercent / 100;
}

std::uint64_t RankLoads::smallest_piece() const noexcept {
  return std::max<std::uint64_t>(share_ / kSmallestPiece, 1);
}

/// Entries that are out of date lie too early in the heap, so the first that is not is the least.
RankLoads::Entry RankLoads::least(Members& members) {
  std::vector<Entry>& heap = members.heap;
  if (heap.empty()) {
    for (const std::uint32_t rank : *members.ranks) {
      heap.push_back({loads_[rank], rank});
    }
    std::make_heap(heap.begin(), heap.end(), has_more);
  }
  while (heap.front().bytes != loads_[heap.front().rank]) {
    const std::uint32_t rank = heap.front().rank;
    pop(heap);
    push(heap, {loads_[rank], rank});
  }
  return heap.front();
}

std::uint64_t RankLoads::level_of(const Members& members) const {
  std::vector<std::uint64_t> loads;
  for (const std::uint32_t rank : *members.ranks) {
    loads.push_back(loads_[rank]);
  }
  std::sort(loads.begin(), loads.end());
  return water_level(loads, members.expected_bytes);
}

/// The least loaded ranks: as many as the part fills up to the level, or else to a little above it. None when it does
/// not fit so.
std::vector<RankLoads::Entry> RankLoads::take(Members& members, std::uint64_t bytes) {
  std::vector<Entry> taken;
  std::uint64_t above_level = bytes;  // What does not fit below the level.
  std::uint64_t above_all = bytes;    // Nor within the tolerance.
  while (above_level > 0 && taken.size() < members.ranks->size()) {
    const Entry entry = least(members);
    const std::uint64_t below = difference(*members.level, entry.bytes);
    const std::uint64_t room = difference(*members.level + tolerance(), entry.bytes);
    if (room < smallest_piece() || (below < smallest_piece() && above_all == 0)) {
      break;
    }
    above_level = difference(above_level, below);
    above_all = difference(above_all, room);
    taken.push_back(entry);
    pop(members.heap);
  }
  for (const Entry& entry : taken) {
    push(members.heap, entry);
  }
  if (above_all > 0) {
    taken.clear();
  }
  return taken;
}

/// The loads fill one after the other, or equally when the part is enough for all.
std::vector<RankLoads::Amount> RankLoads::fill(std::span<const Entry> entries, std::uint64_t bytes,
                                               std::uint64_t level) {
  std::vector<std::uint64_t> loads;
  std::uint64_t room_bytes = 0;
  for (const Entry& entry : entries) {
    loads.push_back(entry.bytes);
    room_bytes = checked_add(room_bytes, difference(level, entry.bytes)).value_or(UINT64_MAX);
  }
  if (bytes >= room_bytes) {
    level = water_level(loads, bytes);
  }
  std::vector<Amount> amounts;
  for (const Entry& entry : entries) {
    const std::uint64_t amount = std::min(bytes, difference(level, entry.bytes));
    bytes -= amount;
    if (amount > 0) {
      amounts.push_back({entry.rank, amount});
    }
  }
  return amounts;
}

std::vector<RankLoads::Amount> RankLoads::divide(Group group, std::uint64_t bytes) {
  Members& members = members_[group];
  if (!members.level) {
    members.level = level_of(members);
  }
  std::vector<Entry> taken = take(members, bytes);
  if (taken.empty()) {  // Other groups have used the room since.
    members.level = level_of(members);
    taken = take(members, bytes);
  }
  if (taken.empty()) {
    return {};  // Only where sums of sizes do not fit in 64 bits.
  }
  std::vector<Amount> amounts = fill(taken, bytes, *members.level);
  if (amounts.size() > 1 && amounts.back().bytes < smallest_piece()) {
    amounts = fill(std::span(taken).first(amounts.size() - 1), bytes, *members.level);
  }
  return amounts;
}

}  // namespace cairn::sharding_detail
