// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/share_plan.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/sharding/flat_range.hpp"

#include "base/internal/checked.hpp"
#include "sharding/array_parts.hpp"

namespace cairn {

using sharding_detail::ArrayParts;
using sharding_detail::GridRule;
using sharding_detail::Parts;
using sharding_detail::PartsFinder;
using sharding_detail::TableRule;

namespace {

constexpr std::uint32_t kSeveral = UINT32_MAX;  // For a rank: several write the part.

// Nobody is left with more than this above its share for want of a split: the numbers of boxes stay small, and ranks within
// 2 % + 1 / 32 of each other.
constexpr std::uint64_t kTolerancePercent = 2;
constexpr std::uint64_t kSmallestSplit = 32;   // Parts below 1 / 32 of a rank's share are never split.
constexpr std::uint64_t kSmallestPiece = 256;  // Nor does anybody get a piece below 1 / 256 of it.
constexpr std::uint64_t kPieceTolerance = 32;  // Pieces end at rows, which may give or take 1 / 32 of it.

using Wide = unsigned __int128;  // Products of sizes.

struct SplitPiece {
  std::uint32_t rank = 0;
  Box box;
};

std::uint64_t bytes_of(DType dtype, std::uint64_t elements) {
  return is_packed(dtype) ? (elements * bits(dtype) + 7) / 8 : elements * (bits(dtype) / 8);
}

}  // namespace

struct SharePlan::Plan {
  struct Planned {
    std::shared_ptr<const Parts> parts;
    std::vector<std::uint32_t> writers;  // By part; empty where each part has one holder.
  };

  [[nodiscard]] static std::uint64_t key(std::uint32_t array, std::uint32_t part) {
    return std::uint64_t{array} << 32 | part;
  }

  void append_part(std::uint32_t rank, std::uint32_t array, std::uint32_t part,
                   std::vector<Share>& shares) const;

  std::vector<PlannedArray> arrays;
  std::uint32_t ranks = 0;
  std::vector<Planned> planned;  // By array.
  std::unordered_map<std::uint64_t, std::vector<SplitPiece>> splits;
  std::vector<std::uint64_t> bytes;  // By rank.
};

void SharePlan::Plan::append_part(std::uint32_t rank, std::uint32_t array, std::uint32_t part,
                                  std::vector<Share>& shares) const {
  const Planned& own = planned[array];
  const std::uint32_t writer = own.writers.empty() ? rank : own.writers[part];
  if (writer == rank) {
    for (Box& box : sharding_detail::boxes_of_part(arrays[array], *own.parts, part)) {
      shares.push_back({array, std::move(box)});
    }
  } else if (writer == kSeveral) {
    for (const SplitPiece& piece : splits.at(key(array, part))) {
      if (piece.rank == rank) {
        shares.push_back({array, piece.box});
      }
    }
  }
}

/// Gives every part that several ranks hold to one of them, or to several.
class SharePlan::Planner {
 public:
  Planner(Plan& plan, ReplicaChoice choice) : plan_(plan), choice_(choice) {}

  void run() {
    check_names();
    plan_.bytes.assign(plan_.ranks, 0);
    plan_.planned.resize(plan_.arrays.size());
    PartsFinder finder(plan_.ranks);
    for (std::uint32_t array = 0; array < plan_.arrays.size(); ++array) {
      add(array, finder.find(plan_.arrays[array]));
    }
    std::sort(candidates_.begin(), candidates_.end(), comes_before);
    for (const Candidate& candidate : candidates_) {
      give(candidate);
    }
  }

 private:
  /// A part that several ranks hold.
  struct Candidate {
    std::uint32_t turn;
    std::uint32_t holders;
    std::uint64_t bytes;
    std::uint32_t name;  // Its place among all names.
    std::uint32_t array;
    std::uint32_t part;
  };

  static bool comes_before(const Candidate& a, const Candidate& b) {
    if (a.turn != b.turn || a.holders != b.holders) {
      return a.turn != b.turn ? a.turn < b.turn : a.holders < b.holders;
    }
    if (a.bytes != b.bytes) {
      return a.bytes > b.bytes;
    }
    return a.name != b.name ? a.name < b.name : a.part < b.part;
  }

  void check_names() {
    const std::vector<PlannedArray>& arrays = plan_.arrays;
    std::vector<std::uint32_t> order(arrays.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return arrays[a].name < arrays[b].name; });
    names_.resize(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      names_[order[i]] = i;
      if (i > 0 && arrays[order[i]].name == arrays[order[i - 1]].name) {
        throw Error(Errc::invalid_argument, fmt::format("two arrays are called '{}'", arrays[order[i]].name));
      }
    }
  }

  void add(std::uint32_t array, ArrayParts found) {
    Plan::Planned& planned = plan_.planned[array];
    planned.parts = std::move(found.parts);
    const Parts& parts = *planned.parts;
    for (std::uint32_t part = 0; part < parts.count(); ++part) {
      if (found.elements[part] == 0) {
        continue;
      }
      const std::uint64_t bytes = bytes_of(plan_.arrays[array].dtype, found.elements[part]);
      const auto holders = parts.holders_of(part);
      total_bytes_ = checked_add(total_bytes_, bytes).value_or(UINT64_MAX);
      if (choice_ == ReplicaChoice::main) {
        check_main(array, part, holders);
      }
      if (holders.size() == 1) {
        plan_.bytes[holders[0].rank] += bytes;
        continue;
      }
      if (planned.writers.empty()) {
        planned.writers.resize(parts.count());
        for (std::uint32_t i = 0; i < parts.count(); ++i) {
          planned.writers[i] = parts.holders_of(i).empty() ? 0 : parts.holders_of(i)[0].rank;
        }
      }
      candidates_.push_back({plan_.arrays[array].turn, static_cast<std::uint32_t>(holders.size()), bytes,
                             names_[array], array, part});
    }
  }

  void check_main(std::uint32_t array, std::uint32_t part, std::span<const Parts::Holder> holders) const {
    if (std::none_of(holders.begin(), holders.end(),
                     [](const auto& holder) { return holder.replica == 0; })) {
      const PlannedArray& named = plan_.arrays[array];
      const Box box = sharding_detail::boxes_of_part(named, *plan_.planned[array].parts, part)[0];
      throw Error(
          Errc::incomplete_shards,
          fmt::format("'{}': none of the {} ranks that hold box {} has the main replica (rank {} has {})",
                      named.name, holders.size(), to_string(box), holders[0].rank, holders[0].replica));
    }
  }

  void give(const Candidate& candidate) {
    const auto holders = plan_.planned[candidate.array].parts->holders_of(candidate.part);
    std::uint32_t& writer = plan_.planned[candidate.array].writers[candidate.part];
    if (choice_ == ReplicaChoice::main) {
      writer = std::find_if(holders.begin(), holders.end(), [](const auto& one) {
                 return one.replica == 0;
               })->rank;
    } else {
      const auto is_less_loaded = [&](const Parts::Holder& a, const Parts::Holder& b) {
        return plan_.bytes[a.rank] < plan_.bytes[b.rank];
      };
      writer = std::min_element(holders.begin(), holders.end(), is_less_loaded)->rank;
      if (choice_ == ReplicaChoice::balanced_and_split && is_too_much(candidate.bytes, plan_.bytes[writer]) &&
          split(candidate, holders)) {
        writer = kSeveral;
        return;
      }
    }
    plan_.bytes[writer] += candidate.bytes;
  }

  [[nodiscard]] std::uint64_t share() const { return std::max<std::uint64_t>(total_bytes_ / plan_.ranks, 1); }

  [[nodiscard]] bool is_too_much(std::uint64_t bytes, std::uint64_t load) const {
    return bytes > share() / kSmallestSplit && load + bytes > share() + share() / 100 * kTolerancePercent;
  }

  /// Fills up the least loaded holders to a common level. False when the part cannot be cut.
  bool split(const Candidate& candidate, std::span<const Parts::Holder> holders) {
    const PlannedArray& array = plan_.arrays[candidate.array];
    std::vector<Box> boxes =
        sharding_detail::boxes_of_part(array, *plan_.planned[candidate.array].parts, candidate.part);
    if (is_packed(array.dtype) || boxes.size() != 1 || boxes[0].rank() == 0) {
      return false;
    }
    const std::vector<Amount> amounts = level(candidate.bytes, holders);
    if (amounts.size() < 2) {
      return false;
    }
    std::vector<SplitPiece>& pieces = plan_.splits[Plan::key(candidate.array, candidate.part)];
    const std::uint64_t item_bytes = bits(array.dtype) / 8;
    for (SplitPiece& piece : cut_into(boxes[0], candidate.bytes, amounts)) {
      plan_.bytes[piece.rank] += *element_count(piece.box.extents()) * item_bytes;
      pieces.push_back(std::move(piece));
    }
    return true;
  }

  struct Amount {
    std::uint32_t rank = 0;
    std::uint64_t bytes = 0;
  };

  [[nodiscard]] std::vector<Amount> level(std::uint64_t bytes, std::span<const Parts::Holder> holders) const {
    std::vector<Amount> amounts;  // First the loads, then what each gets.
    for (const Parts::Holder& holder : holders) {
      amounts.push_back({holder.rank, plan_.bytes[holder.rank]});
    }
    std::stable_sort(amounts.begin(), amounts.end(),
                     [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    // The most holders whose loads, made equal, have room below the next one's.
    Wide sum = bytes;
    std::size_t count = 0;
    while (count < amounts.size() && Wide{amounts[count].bytes} * count < sum) {
      sum += amounts[count++].bytes;
    }
    const auto water = static_cast<std::uint64_t>(sum / count);
    amounts.resize(count);
    for (Amount& amount : amounts) {
      amount.bytes = water - std::min(water, amount.bytes);
    }
    while (amounts.size() > 1 && amounts.back().bytes <= share() / kSmallestPiece) {
      amounts.pop_back();  // The others share it: pieces are cut in proportion.
    }
    return amounts;
  }

  /// Where each amount ends, in rows: the rows are divided in proportion.
  [[nodiscard]] static std::vector<std::uint64_t> ends_in_rows(std::uint64_t rows,
                                                               const std::vector<Amount>& amounts) {
    const std::uint64_t sum =
        std::accumulate(amounts.begin(), amounts.end(), std::uint64_t{0},
                        [](std::uint64_t before, const Amount& one) { return before + one.bytes; });
    std::vector<std::uint64_t> ends;
    std::uint64_t given = 0;
    for (const Amount& amount : amounts) {
      given += amount.bytes;
      ends.push_back(static_cast<std::uint64_t>((Wide{given} * rows + sum / 2) / sum));
    }
    return ends;
  }

  /// Whether rows of so many bytes, divided so, give each about its amount.
  [[nodiscard]] bool are_close(const std::vector<std::uint64_t>& ends, std::uint64_t row_bytes,
                               const std::vector<Amount>& amounts) const {
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < amounts.size(); ++i) {
      const std::uint64_t bytes = (ends[i] - begin) * row_bytes;
      const std::uint64_t off = std::max(bytes, amounts[i].bytes) - std::min(bytes, amounts[i].bytes);
      if (off > share() / kPieceTolerance) {
        return false;
      }
      begin = ends[i];
    }
    return true;
  }

  /// Cuts a box into ranges of rows, in proportion to the amounts; a row is an index of as many outer dimensions as it takes
  /// to come close to them. The fewer these are, the fewer boxes there are.
  [[nodiscard]] std::vector<SplitPiece> cut_into(const Box& box, std::uint64_t bytes,
                                                 const std::vector<Amount>& amounts) const {
    std::uint64_t rows = 1;
    std::size_t outer = 0;
    std::vector<std::uint64_t> ends;
    do {
      rows *= box.extents()[outer++];
      ends = ends_in_rows(rows, amounts);
    } while (outer < box.rank() && !are_close(ends, bytes / rows, amounts));
    const std::span<const std::uint64_t> offsets(box.offsets());
    const std::span<const std::uint64_t> extents(box.extents());
    const Box outer_box(Shape(offsets.first(outer)), Shape(extents.first(outer)));
    std::vector<SplitPiece> pieces;
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < amounts.size(); ++i) {
      for (const FlatPiece& piece : boxes_of_flat_range(outer_box, begin, ends[i])) {
        Shape piece_offsets = box.offsets();
        Shape piece_extents = box.extents();
        std::copy(piece.box.offsets().begin(), piece.box.offsets().end(), piece_offsets.begin());
        std::copy(piece.box.extents().begin(), piece.box.extents().end(), piece_extents.begin());
        pieces.push_back({amounts[i].rank, Box(std::move(piece_offsets), std::move(piece_extents))});
      }
      begin = ends[i];
    }
    return pieces;
  }

  Plan& plan_;
  ReplicaChoice choice_;
  std::uint64_t total_bytes_ = 0;
  std::vector<std::uint32_t> names_;  // By array: its place among all names.
  std::vector<Candidate> candidates_;
};

SharePlan::SharePlan(std::vector<PlannedArray> arrays, std::uint32_t ranks, ReplicaChoice choice) {
  sharding_detail::check_rank_count(ranks);
  auto plan = std::make_unique<Plan>();
  plan->arrays = std::move(arrays);
  plan->ranks = ranks;
  Planner(*plan, choice).run();
  plan_ = std::move(plan);
}

SharePlan::~SharePlan() = default;
SharePlan::SharePlan(SharePlan&&) noexcept = default;
SharePlan& SharePlan::operator=(SharePlan&&) noexcept = default;

std::span<const PlannedArray> SharePlan::arrays() const noexcept {
  return plan_->arrays;
}

std::uint32_t SharePlan::ranks() const noexcept {
  return plan_->ranks;
}

bool SharePlan::has_no_copies() const noexcept {
  return std::all_of(plan_->planned.begin(), plan_->planned.end(),
                     [](const Plan::Planned& array) { return array.writers.empty(); });
}

std::span<const std::uint64_t> SharePlan::bytes_by_rank() const noexcept {
  return plan_->bytes;
}

std::vector<Share> SharePlan::shares(std::uint32_t rank) const {
  if (rank >= plan_->ranks) {
    throw Error(Errc::invalid_argument,
                fmt::format("sharding: there is no rank {} among {}", rank, plan_->ranks));
  }
  std::vector<Share> shares;
  for (std::uint32_t array = 0; array < plan_->arrays.size(); ++array) {
    const Sharding& sharding = plan_->arrays[array].sharding;
    if (rank >= sharding.ranks()) {
      continue;
    }
    if (const auto* grid = dynamic_cast<const GridRule*>(&sharding.rule())) {
      if (const auto place = grid->place(rank)) {
        plan_->append_part(rank, array, place->part, shares);
      }
      continue;
    }
    const auto& table = dynamic_cast<const TableRule&>(sharding.rule());
    for (std::uint32_t number = table.first(rank); number < table.first(rank + 1); ++number) {
      const std::uint32_t part = plan_->planned[array].parts->part_of_box[number];
      if (part != Sharding::kNoPart) {
        plan_->append_part(rank, array, part, shares);
      }
    }
  }
  return shares;
}

}  // namespace cairn
