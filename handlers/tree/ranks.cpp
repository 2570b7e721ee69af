// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/formats/index.hpp"

namespace cairn::detail {
namespace {

/// Brings what all ranks say to rank 0, merged on the way.
Awaitable<std::string> gather(Subject& ranks, const RankLeaves& mine) {
  std::string text = encode_holdings(static_cast<std::uint32_t>(mine.rank), mine.lines, mine.holdings);
  Subject::Merge merge = [](std::vector<std::string> texts) { return merge_holdings(texts); };
  Awaitable<std::string> gathered = ranks.reduce(std::move(text), std::move(merge));
  return gathered;
}

/// What rank 0 answers each rank.
std::vector<std::string> shares_by_rank(std::string_view gathered, const RankLeaves& mine) {
  const auto ranks = static_cast<std::uint32_t>(mine.ranks);
  const SharePlan plan(decode_holdings(gathered, mine.holdings, ranks), ranks, mine.replicas);
  std::vector<std::string> answers;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    answers.push_back(encode_shares(plan.shares(rank)));
  }
  return answers;
}

}  // namespace

std::string line_of_leaf(std::string_view path, std::string_view kind) {
  return fmt::format("{}: {}\n", formats::shown(path), kind);
}

std::string line_of_array(std::string_view path, std::string_view kind, DType dtype, const Shape& shape) {
  return fmt::format("{}: {} of {} {}\n", formats::shown(path), kind, dtype, shape);
}

// outlives: the caller keeps the subject until this has ended.
Awaitable<std::vector<Share>> agree_on_shares(Subject& ranks, RankLeaves mine) {
  const std::string gathered = co_await gather(ranks, mine);
  std::vector<std::string> answers;
  if (mine.rank == 0) {
    answers = shares_by_rank(gathered, mine);
  }
  const std::string answer = co_await ranks.scatter(std::move(answers));
  co_return decode_shares(answer, mine.holdings);
}

// outlives: as above.
Awaitable<> agree_on_leaves(Subject& ranks, RankLeaves mine) {
  co_await gather(ranks, mine);
}

}  // namespace cairn::detail
