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

constexpr std::string_view kAllThatYouHold = "*";  // In place of shares, none of which has so few bytes.

/// What rank 0 answers each rank.
std::vector<std::string> shares_by_rank(std::string_view gathered, const RankLeaves& mine) {
  const auto ranks = static_cast<std::uint32_t>(mine.ranks);
  const SharePlan plan(decode_holdings(gathered, mine.holdings, ranks), ranks, mine.replicas,
                       mine.alone_bytes);
  const std::string same = encode_same(plan.arrays());
  std::vector<std::string> answers;
  if (plan.has_no_copies()) {
    answers.assign(ranks, same + std::string(kAllThatYouHold));
    return answers;
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    answers.push_back(same + encode_shares(plan.shares(rank)));
  }
  return answers;
}

/// The same. Where what ranks hold does not fit together, no rank alone has failed: all are told the same.
std::vector<std::string> answers_of(const Subject& ranks, std::string_view gathered, const RankLeaves& mine) {
  try {
    return shares_by_rank(gathered, mine);
  } catch (const Error& error) {
    if (error.code().category() != cairn_category()) {
      throw;
    }
    ranks.refuse_together(Error(error.code(), fmt::format("'{}': {}", mine.name, error.detail())));
  }
}

RankShares shares_of(std::string_view answer, std::span<const Holding> mine) {
  RankShares of_rank;
  of_rank.same_as = take_same(answer, mine.size());
  if (answer != kAllThatYouHold) {
    of_rank.shares = decode_shares(answer, mine);
    return of_rank;
  }
  std::vector<Share>& shares = of_rank.shares;
  for (std::uint32_t array = 0; array < mine.size(); ++array) {
    for (const PlacedBox& placed : mine[array].boxes) {
      const bool is_replica =
          !shares.empty() && shares.back() == Share{array, placed.box};  // Those follow each other.
      if (!is_replica && !of_rank.same_as[array]) {
        shares.push_back({array, placed.box});
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

// outlives: the caller keeps the subject until this has ended.
Awaitable<AgreedLeaves> agree_on_shares(Subject& ranks, RankLeaves mine,
                                        std::shared_ptr<const KeptShares> before) {
  std::optional<SaidBefore> said;
  if (before && before->replicas == mine.replicas) {
    said = before->said;
  }
  std::string text = encode_holdings(static_cast<std::uint32_t>(mine.rank), mine.lines, mine.holdings);
  Subject::Merge merge = [](const std::vector<std::string>& texts) { return merge_holdings(texts); };
  Awaitable<Reduced> reducing =
      reduce_changes(ranks, std::move(text), std::move(merge), said, mine.values.hash());
  const Reduced reduced = co_await std::move(reducing);
  AgreedLeaves agreed;
  agreed.has_same_values = reduced.is_alike;
  if (reduced.is_known) {
    agreed.shares = std::move(before);
    agreed.mine = std::move(mine);
    co_return agreed;
  }
  std::vector<std::string> answers;
  if (mine.rank == 0) {
    answers = answers_of(ranks, reduced.all, mine);
  }
  const std::string answer = co_await ranks.scatter(std::move(answers));
  auto kept = std::make_shared<KeptShares>();
  kept->said = reduced.said;
  kept->replicas = mine.replicas;
  kept->shares = shares_of(answer, mine.holdings);
  agreed.shares = std::move(kept);
  agreed.mine = std::move(mine);
  co_return agreed;
}

}  // namespace cairn::detail
