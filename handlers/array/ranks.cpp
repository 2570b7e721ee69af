// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::detail {
namespace {

/// Returns what rank 0 answers each rank. Where what ranks hold does not fit together, no rank alone has failed: all
/// are told the same.
std::vector<std::string> answers_of(const coord::Channel& ranks, std::string_view gathered,
                                    const LeavesOfRank& mine) {
  try {
    return sharding::plan_answers(gathered, mine.ranks, mine.options);
  } catch (const Error& error) {
    if (error.code().category() != cairn_category()) {
      throw;
    }
    ranks.refuse_together(Error(error.code(), fmt::format("'{}': {}", mine.name, error.detail())));
  }
}

}  // namespace

// outlives: the caller keeps the channel until this has ended.
Awaitable<AgreedLeaves> agree_on_assignments(coord::Channel& ranks, LeavesOfRank mine,
                                             std::shared_ptr<const KeptAssignments> before) {
  std::optional<coord::SaidBefore> said;
  if (before && before->replicas == mine.options.replicas &&
      before->is_covered_by_main == mine.options.is_covered_by_main) {
    said = before->said;
  }
  std::string text = sharding::encode_rank_leaves(mine.said);
  coord::Channel::Merge merge = [](const std::vector<std::string>& texts) {
    return sharding::merge_rank_leaves(texts);
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
  if (mine.said.rank == 0) {
    answers = answers_of(ranks, reduced.all, mine);
  }
  const std::string answer = co_await ranks.scatter(std::move(answers));
  auto kept = std::make_shared<KeptAssignments>();
  kept->said = reduced.said;
  kept->replicas = mine.options.replicas;
  kept->is_covered_by_main = mine.options.is_covered_by_main;
  kept->assignments = sharding::decode_answer(answer, mine.said);
  agreed.assignments = std::move(kept);
  agreed.mine = std::move(mine);
  co_return agreed;
}

}  // namespace cairn::detail
