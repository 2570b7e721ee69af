// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/assignment_plan.hpp"

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
#include "sharding/given_parts.hpp"
#include "sharding/rank_loads.hpp"

namespace cairn::sharding {

using sharding_detail::ArrayParts;
using sharding_detail::GivenParts;
using sharding_detail::GridRule;
using sharding_detail::Parts;
using sharding_detail::PartsFinder;
using sharding_detail::RankLoads;
using sharding_detail::TableRule;

namespace {

using Wide = unsigned __int128;  // Products of sizes.

struct SplitPiece {
  std::uint32_t rank = 0;
  Box box;
};

std::uint64_t bytes_of(DType dtype, std::uint64_t elements) {
  return is_packed(dtype) ? (elements * bits(dtype) + 7) / 8 : elements * (bits(dtype) / 8);
}

}  // namespace

struct AssignmentPlan::Plan {
  struct Planned {
    std::shared_ptr<const Parts> parts;
    bool is_chosen =
        false;  // Of copies, or among boxes that are left out; else each rank writes all it holds.
  };

  void append_part(std::uint32_t array, std::uint32_t part, std::vector<WriteAssignment>& assignments) const;
  void append_held(std::uint32_t rank, std::uint32_t array, std::vector<WriteAssignment>& assignments) const;

  std::vector<PlannedArray> arrays;
  std::uint32_t ranks = 0;
  std::vector<Planned> planned;      // By array.
  GivenParts given;                  // Of arrays that are chosen.
  std::vector<Box> pieces;           // Of parts that are cut.
  std::vector<std::uint64_t> bytes;  // By rank.
};

void AssignmentPlan::Plan::append_part(std::uint32_t array, std::uint32_t part,
                                       std::vector<WriteAssignment>& assignments) const {
  for (Box& box : sharding_detail::boxes_of_part(arrays[array], *planned[array].parts, part)) {
    assignments.push_back({array, std::move(box)});
  }
}

/// Appends what a rank holds of an array that is not chosen.
void AssignmentPlan::Plan::append_held(std::uint32_t rank, std::uint32_t array,
                                       std::vector<WriteAssignment>& assignments) const {
  const Sharding& sharding = arrays[array].sharding;
  if (rank >= sharding.ranks()) {
    return;
  }
  if (const auto* grid = dynamic_cast<const GridRule*>(&sharding.rule())) {
    if (const auto place = grid->place(rank)) {
      append_part(array, place->part, assignments);
    }
    return;
  }
  const auto& table = dynamic_cast<const TableRule&>(sharding.rule());
  for (std::uint32_t number = table.first(rank); number < table.first(rank + 1); ++number) {
    const std::uint32_t part = planned[array].parts->part_of_box[number];
    if (part != Sharding::kNoPart) {
      append_part(array, part, assignments);
    }
  }
}

/// Gives every part that several ranks hold to one of them, or to several.
class AssignmentPlan::Planner {
 public:
  Planner(Plan& plan, const PlanOptions& options)
      : plan_(plan), options_(options), choice_(options.replicas), loads_(plan.ranks) {
    const std::vector<std::uint64_t>& alone = options.alone_bytes;
    const std::vector<std::uint32_t>& groups = options.group_of_rank;
    if (alone.size() > plan.ranks || (!groups.empty() && groups.size() != plan.ranks)) {
      throw Error(Errc::invalid_argument,
                  fmt::format("sharding: groups of {} ranks and loads of {}, in a job of {}", groups.size(),
                              alone.size(), plan.ranks));
    }
    for (std::uint32_t rank = 0; rank < alone.size(); ++rank) {
      loads_.add(rank, alone[rank]);
      total_bytes_ = checked_add(total_bytes_, alone[rank]).value_or(UINT64_MAX);
    }
  }

  void run() {
    check_names();
    plan_.planned.resize(plan_.arrays.size());
    PartsFinder finder(plan_.ranks, options_.is_covered_by_main);
    for (std::uint32_t array = 0; array < plan_.arrays.size(); ++array) {
      if (!plan_.arrays[array].same_as) {
        add(array, finder.find(plan_.arrays[array]));
      }
    }
    loads_.set_share(std::max<std::uint64_t>(total_bytes_ / plan_.ranks, 1));
    std::sort(candidates_.begin(), candidates_.end(), comes_before);
    for (const Candidate& candidate : candidates_) {
      give(candidate);
    }
    plan_.given.finish();
    plan_.bytes.assign(loads_.loads().begin(), loads_.loads().end());
  }

 private:
  /// A part that several ranks hold.
  struct Candidate {
    std::uint32_t turn;
    std::uint32_t writers;  // How many ranks may write it.
    std::uint64_t bytes;
    std::uint32_t name;  // Its place among all names.
    std::uint32_t array;
    std::uint32_t part;
    RankLoads::Group group;  // Those ranks; kNoGroup where the choice is the caller's.
  };

  static bool comes_before(const Candidate& a, const Candidate& b) {
    if (a.turn != b.turn || a.writers != b.writers) {
      return a.turn != b.turn ? a.turn < b.turn : a.writers < b.writers;
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
    planned.is_chosen = parts.leaves_out;
    for (std::uint32_t part = 0; part < parts.count(); ++part) {
      planned.is_chosen |= found.elements[part] != 0 && parts.holders_of(part).size() > 1;
    }
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
      std::uint32_t writer = holders[0].rank;
      if (holders.size() > 1) {
        const std::vector<std::uint32_t> writers = writers_of(parts, part);
        if (writers.size() > 1) {
          add_candidate(array, part, bytes, static_cast<std::uint32_t>(writers.size()));
          continue;
        }
        writer = writers[0];
      }
      loads_.add(writer, bytes);
      if (planned.is_chosen) {
        plan_.given.add({writer, array, part});
      }
    }
  }

  /// The ranks of which one may write a part: those that hold it, in the group of its main replica.
  [[nodiscard]] std::vector<std::uint32_t> writers_of(const Parts& parts, std::uint32_t part) const {
    const auto holders = parts.holders_of(part);
    const std::vector<std::uint32_t>& groups = options_.group_of_rank;
    const auto main = std::min_element(holders.begin(), holders.end(),
                                       [](const auto& a, const auto& b) { return a.replica < b.replica; });
    std::vector<std::uint32_t> ranks;
    for (const Parts::Holder& holder : holders) {
      if (groups.empty() || groups[holder.rank] == groups[main->rank]) {
        ranks.push_back(holder.rank);
      }
    }
    return ranks;
  }

  void add_candidate(std::uint32_t array, std::uint32_t part, std::uint64_t bytes, std::uint32_t writers) {
    const Parts& parts = *plan_.planned[array].parts;
    RankLoads::Group group = kNoGroup;
    if (choice_ != ReplicaChoice::main) {
      group = group_of(parts, part);
      loads_.expect(group, bytes);
    }
    candidates_.push_back({plan_.arrays[array].turn, writers, bytes, names_[array], array, part, group});
  }

  /// Arrays that are divided alike have the same parts, whose holders are looked at once.
  RankLoads::Group group_of(const Parts& parts, std::uint32_t part) {
    std::vector<RankLoads::Group>& groups = groups_[&parts];
    groups.resize(parts.count(), kNoGroup);
    if (groups[part] == kNoGroup) {
      groups[part] = loads_.group_of(writers_of(parts, part));
    }
    return groups[part];
  }

  void check_main(std::uint32_t array, std::uint32_t part, std::span<const Parts::Holder> holders) const {
    if (std::none_of(holders.begin(), holders.end(),
                     [](const auto& holder) { return holder.replica == 0; })) {
      const PlannedArray& named = plan_.arrays[array];
      const Parts& parts = *plan_.planned[array].parts;
      sharding_detail::refuse_without_main(named, sharding_detail::boxes_of_part(named, parts, part)[0],
                                           ranks_of(parts, part));
    }
  }

  void give(const Candidate& candidate) {
    if (choice_ == ReplicaChoice::main) {
      const auto holders = plan_.planned[candidate.array].parts->holders_of(candidate.part);
      give_whole(candidate, std::find_if(holders.begin(), holders.end(), [](const auto& one) {
                              return one.replica == 0;
                            })->rank);
      return;
    }
    const std::uint32_t rank = loads_.least_loaded(candidate.group);
    if (choice_ != ReplicaChoice::balanced_and_split ||
        !loads_.is_too_much(candidate.bytes, candidate.group) || !split(candidate)) {
      give_whole(candidate, rank);
    }
    loads_.settle(candidate.group, candidate.bytes);
  }

  void give_whole(const Candidate& candidate, std::uint32_t rank) {
    loads_.add(rank, candidate.bytes);
    plan_.given.add({rank, candidate.array, candidate.part});
  }

  /// False when the part cannot be cut, or need not be.
  bool split(const Candidate& candidate) {
    const PlannedArray& array = plan_.arrays[candidate.array];
    const std::vector<Box> boxes =
        sharding_detail::boxes_of_part(array, *plan_.planned[candidate.array].parts, candidate.part);
    if (is_packed(array.dtype) || boxes.size() != 1 || boxes[0].rank() == 0) {
      return false;
    }
    const std::vector<RankLoads::Amount> amounts = loads_.divide(candidate.group, candidate.bytes);
    if (amounts.size() < 2) {
      return false;
    }
    const std::uint64_t item_bytes = bits(array.dtype) / 8;
    for (SplitPiece& piece : cut_into(boxes[0], candidate.bytes, amounts)) {
      loads_.add(piece.rank, *element_count(piece.box.extents()) * item_bytes);
      plan_.given.add(
          {piece.rank, candidate.array, candidate.part, static_cast<std::uint32_t>(plan_.pieces.size())});
      plan_.pieces.push_back(std::move(piece.box));
    }
    return true;
  }

  /// Where each amount ends, in rows: the rows are divided in proportion.
  [[nodiscard]] static std::vector<std::uint64_t> ends_in_rows(
      std::uint64_t rows, const std::vector<RankLoads::Amount>& amounts) {
    const std::uint64_t sum = std::accumulate(
        amounts.begin(), amounts.end(), std::uint64_t{0},
        [](std::uint64_t before, const RankLoads::Amount& one) { return before + one.bytes; });
    std::vector<std::uint64_t> ends;
    std::uint64_t given = 0;
    for (const RankLoads::Amount& amount : amounts) {
      given += amount.bytes;
      ends.push_back(static_cast<std::uint64_t>((Wide{given} * rows + sum / 2) / sum));
    }
    return ends;
  }

  /// Returns whether rows of so many bytes, divided so, give each about its amount.
  [[nodiscard]] bool are_close(const std::vector<std::uint64_t>& ends, std::uint64_t row_bytes,
                               const std::vector<RankLoads::Amount>& amounts) const {
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < amounts.size(); ++i) {
      if (!loads_.is_close((ends[i] - begin) * row_bytes, amounts[i].bytes)) {
        return false;
      }
      begin = ends[i];
    }
    return true;
  }

  /// Cuts a box into ranges of rows, in proportion to the amounts; a row is an index of as many outer dimensions as
  /// it takes to come close to them. The fewer these are, the fewer boxes there are.
  [[nodiscard]] std::vector<SplitPiece> cut_into(const Box& box, std::uint64_t bytes,
                                                 const std::vector<RankLoads::Amount>& amounts) const {
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

  static constexpr RankLoads::Group kNoGroup = UINT32_MAX;

  Plan& plan_;
  const PlanOptions& options_;
  const ReplicaChoice choice_;
  RankLoads loads_;
  std::uint64_t total_bytes_ = 0;
  std::vector<std::uint32_t> names_;  // By array: its place among all names.
  std::unordered_map<const Parts*, std::vector<RankLoads::Group>> groups_;  // By part.
  std::vector<Candidate> candidates_;
};

AssignmentPlan::AssignmentPlan(std::vector<PlannedArray> arrays, std::uint32_t ranks,
                               const PlanOptions& options) {
  sharding_detail::check_rank_count(ranks);
  auto plan = std::make_unique<Plan>();
  plan->arrays = std::move(arrays);
  plan->ranks = ranks;
  Planner(*plan, options).run();
  plan_ = std::move(plan);
}

AssignmentPlan::~AssignmentPlan() = default;
AssignmentPlan::AssignmentPlan(AssignmentPlan&&) noexcept = default;
AssignmentPlan& AssignmentPlan::operator=(AssignmentPlan&&) noexcept = default;

std::span<const PlannedArray> AssignmentPlan::arrays() const noexcept {
  return plan_->arrays;
}

std::uint32_t AssignmentPlan::ranks() const noexcept {
  return plan_->ranks;
}

bool AssignmentPlan::has_no_copies() const noexcept {
  return std::none_of(plan_->planned.begin(), plan_->planned.end(),
                      [](const Plan::Planned& array) { return array.is_chosen; });
}

std::span<const std::uint64_t> AssignmentPlan::bytes_by_rank() const noexcept {
  return plan_->bytes;
}

std::vector<WriteAssignment> AssignmentPlan::assignments(std::uint32_t rank) const {
  if (rank >= plan_->ranks) {
    throw Error(Errc::invalid_argument,
                fmt::format("sharding: there is no rank {} among {}", rank, plan_->ranks));
  }
  std::vector<WriteAssignment> assignments;
  const std::span<const GivenParts::Given> all_given = plan_->given.of(rank);
  auto given = all_given.begin();
  for (std::uint32_t array = 0; array < plan_->arrays.size(); ++array) {
    if (plan_->arrays[array].same_as) {
      continue;
    }
    if (!plan_->planned[array].is_chosen) {
      plan_->append_held(rank, array, assignments);
      continue;
    }
    for (; given != all_given.end() && given->array == array; ++given) {
      if (given->piece == GivenParts::kWhole) {
        plan_->append_part(array, given->part, assignments);
      } else {
        assignments.push_back({array, plan_->pieces[given->piece]});
      }
    }
  }
  return assignments;
}

}  // namespace cairn::sharding
