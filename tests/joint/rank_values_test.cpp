// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/rank_values.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace cairn::joint {
namespace {

/// How the values of ranks differ; empty when they do not.
std::string difference(const std::vector<std::string>& rank_values) {
  const std::optional<Disagreement> found = difference_in(merge_rank_values(rank_values));
  return found ? found->text : "";
}

std::string difference(const std::string& one, const std::string& other) {
  return difference({one, other});
}

TEST(RankValues, AgreeWhereAllSayTheSame) {
  const RankValues rank_values = {{"the path", "a"}, {"overwrite", "true"}};

  EXPECT_EQ(difference(encode_rank_values(0, rank_values), encode_rank_values(3, rank_values)), "");
}

TEST(RankValues, NameWhatDiffersAndWho) {
  EXPECT_EQ(
      difference(encode_rank_values(0, {{"the path", "a"}}), encode_rank_values(3, {{"the path", "b"}})),
      "the path: rank 0 has 'a', rank 3 has 'b'");
}

TEST(RankValues, SayWhoIsSilentOfAThing) {
  EXPECT_EQ(difference(encode_rank_values(0, {}), encode_rank_values(1, {{"verify", "true"}})),
            "verify: rank 0 has none, rank 1 has 'true'");
}

TEST(RankValues, NameAllRanksThatSayTheSame) {
  const auto of = [](std::uint32_t rank, const char* a, const char* b) {
    return encode_rank_values(rank, {{"a", a}, {"b", b}});
  };

  EXPECT_EQ(difference({of(0, "x", "y"), of(1, "x", "z"), of(2, "x", "y"), of(3, "x", "y")}),
            "b: ranks 0, 2 and 3 have 'y', rank 1 has 'z'");
  EXPECT_EQ(difference({of(0, "x", "y"), of(1, "x", "z"), of(2, "w", "y"), of(3, "x", "y")}),
            "a: ranks 0, 1 and 3 have 'x', rank 2 has 'w'");
}

TEST(RankValues, KeepADifferenceThatWasFoundOnTheWay) {
  const std::string below =
      merge_rank_values({encode_rank_values(1, {{"a", "x"}}), encode_rank_values(2, {{"a", "y"}})});

  EXPECT_EQ(difference(encode_rank_values(0, {{"a", "x"}}), below),
            "a: ranks 0 and 1 have 'x', rank 2 has 'y'");
}

TEST(RankValues, StayShortWhateverRanksSay) {
  std::string merged = encode_rank_values(0, {{"a", "0"}});
  std::size_t after_four = 0;
  for (std::uint32_t rank = 1; rank < 100; ++rank) {
    merged = merge_rank_values({merged, encode_rank_values(rank, {{"a", std::to_string(rank % 50)}})});
    after_four = rank == 4 ? merged.size() : after_four;
  }

  EXPECT_LE(merged.size(), after_four + 40);
  EXPECT_EQ(difference({merged}),
            "a: ranks 0 and 50 have '0', ranks 1 and 51 have '1', ranks 2 and 52 have '2', ranks 3 and 53 "
            "have '3'");
}

}  // namespace
}  // namespace cairn::joint
