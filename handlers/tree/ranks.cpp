// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/index.hpp"

namespace cairn::detail {
namespace {

constexpr std::string_view kAllThatYouHold = "*";  // In place of assignments, none of which has so few bytes.

/// Returns what rank 0 answers each rank.
std::vector<std::string> assignments_by_rank(std::string_view gathered, const RankLeaves& mine) {
  const auto ranks = static_cast<std::uint32_t>(mine.ranks);
  const sharding::AssignmentPlan plan(sharding::decode_rank_boxes(gathered, mine.rank_boxes, ranks), ranks,
                                      mine.replicas, mine.alone_bytes);
  const std::string same = sharding::encode_same(plan.arrays());
  std::vector<std::string> answers;
  if (plan.has_no_copies()) {
    answers.assign(ranks, same + std::string(kAllThatYouHold));
    return answers;
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    answers.push_back(same + sharding::encode_assignments(plan.assignments(rank)));
  }
  return answers;
}

/// The same. Where what ranks hold does not fit together, no rank alone has failed: all are told the same.
std::vector<std::string> answers_of(const coord::Channel& ranks, std::string_view gathered,
                                    const RankLeaves& mine) {
  try {
    return assignments_by_rank(gathered, mine);
  } catch (const Error& error) {
    if (error.code().category() != cairn_category()) {
      throw;
    }
    ranks.refuse_together(Error(error.code(), fmt::format("'{}': {}", mine.name, error.detail())));
  }
}

RankAssignments assignments_of(std::string_view answer, std::span<const sharding::RankBoxes> mine) {
  RankAssignments of_rank;
  of_rank.same_as = sharding::take_same(answer, mine.size());
  if (answer != kAllThatYouHold) {
    of_rank.assignments = sharding::decode_assignments(answer, mine);
    return of_rank;
  }
  std::vector<sharding::WriteAssignment>& assignments = of_rank.assignments;
  for (std::uint32_t array = 0; array < mine.size(); ++array) {
    for (const PlacedBox& placed : mine[array].boxes) {
      const bool is_replica =
          !assignments.empty() &&
          assignments.back() == sharding::WriteAssignment{array, placed.box};  // Those follow each other.
      if (!is_replica && !of_rank.same_as[array]) {
        assignments.push_back({array, placed.box});
      }
    }
  }
  return of_rank;
}

}  // namespace

std::string line_of_leaf(std::string_view path, std::string_view kind) {
  return fmt::format("{}: {}\n", formats::shown(path), kind);
}

std::string line_of_array(std::string_view path, std::string_view kind, DType dtype, const Shape& shape) {
  return fmt::format("{}: {} of {} {}\n", formats::shown(path), kind, dtype, shape);
}

// outlives: the caller keeps the channel until this has ended.
Awaitable<AgreedLeaves> agree_on_assignments(coord::Channel& ranks, RankLeaves mine,
                                             std::shared_ptr<const KeptAssignments> before) {
  std::optional<coord::SaidBefore> said;
  if (before && before->replicas == mine.replicas) {
    said = before->said;
  }
  std::string text =
      sharding::encode_rank_boxes(static_cast<std::uint32_t>(mine.rank), mine.lines, mine.rank_boxes);
  coord::Channel::Merge merge = [](const std::vector<std::string>& texts) {
    return sharding::merge_rank_boxes(texts);
  };
  Awaitable<coord::Reduced> reducing =
      coord::reduce_changes(ranks, std::move(text), std::move(merge), said, mine.values.hash());
  const coord::Reduced reduced = co_await std::move(reducing);
  AgreedLeaves agreed;
  agreed.has_same_values = reduced.is_alike;
  if (reduced.is_known) {
    agreed.assignments = std::move(before);
    agreed.mine = std::move(mine);
    co_return agreed;
  }
  std::vector<std::string> answers;
  if (mine.rank == 0) {
    answers = answers_of(ranks, reduced.all, mine);
  }
  const std::string answer = co_await ranks.scatter(std::move(answers));
  auto kept = std::make_shared<KeptAssignments>();
  kept->said = reduced.said;
  kept->replicas = mine.replicas;
  kept->assignments = assignments_of(answer, mine.rank_boxes);
  agreed.assignments = std::move(kept);
  agreed.mine = std::move(mine);
  co_return agreed;
}

}  // namespace cairn::detail
