// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/rank_boxes.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn::sharding {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

RankBoxes rows(std::uint64_t begin, std::uint64_t end) {
  return {"w", DType::int8, {8, 3}, {{Box({begin, 0}, {end - begin, 3}), 0}}, std::nullopt};
}

const std::string kLines = "'step': integer\n'w': sharded array of int8 [8, 3]\n";

TEST(RankBoxesOfRanks, ComeTogetherInTheOrderOfRanks) {
  const std::string merged =
      merge_rank_boxes(std::vector<std::string>{encode_rank_boxes(0, kLines, std::vector{rows(0, 3)}),
                                                encode_rank_boxes(2, kLines, std::vector{rows(3, 4)}),
                                                encode_rank_boxes(1, kLines, std::vector{rows(4, 8)})});

  const std::vector<PlannedArray> arrays = decode_rank_boxes(merged, std::vector{rows(0, 3)}, 3);

  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].name, "w");
  EXPECT_EQ(arrays[0].sharding.boxes(1, {8, 3}), rows(4, 8).boxes);
  EXPECT_EQ(arrays[0].sharding.boxes(2, {8, 3}), rows(3, 4).boxes);
}

std::string merge(const std::vector<std::string>& texts) {
  return merge_rank_boxes(texts);
}

TEST(RankBoxesOfRanks, OfRanksThatDifferAreRefused) {
  const auto refused = [](const std::string& other) {
    return [other] {
      const std::string merged = merge({encode_rank_boxes(3, kLines, {}), encode_rank_boxes(5, other, {})});
      static_cast<void>(decode_rank_boxes(merged, {}, 6));
    };
  };

  EXPECT_THAT(refused("'step': integer\n'v': null\n"),
              Fails(Errc::invalid_argument,
                    AllOf(HasSubstr("rank 3 has 'w': sharded array"), HasSubstr("rank 5 has 'v': null"))));
  EXPECT_THAT(refused("'step': integer\n"),
              Fails(Errc::invalid_argument, HasSubstr("rank 5 has nothing more")));
  EXPECT_THAT(refused(""), Fails(Errc::invalid_argument, HasSubstr("rank 5 has nothing more")));
  EXPECT_THAT(refused(kLines + "\n"), Fails(Errc::invalid_argument, HasSubstr("rank 5 has nothing more")));
}

TEST(RankBoxesOfRanks, OfRanksThatDifferNameAllOfThem) {
  const auto of = [](std::uint32_t rank, const char* w, const char* x) {
    return encode_rank_boxes(rank, "'step': integer\n'w': " + std::string(w) + "\n'x': " + x + "\n", {});
  };
  const std::string below = merge({of(1, "null", "null"), of(4, "list", "null")});
  const std::string beside = merge({of(2, "null", "map"), of(3, "null", "null")});

  EXPECT_THAT(
      [&] {
        static_cast<void>(decode_rank_boxes(merge({of(0, "null", "null"), below, beside}), {}, 5));
      },
      Fails(Errc::invalid_argument,
            HasSubstr("do not save the same: ranks 0, 1, 2 and 3 have 'w': null, rank 4 has 'w': list")));
  EXPECT_THAT(
      [&] {
        static_cast<void>(decode_rank_boxes(merge({of(0, "null", "null"), beside}), {}, 4));
      },
      Fails(Errc::invalid_argument,
            HasSubstr("do not save the same: ranks 0 and 3 have 'x': null, rank 2 has 'x': map")));
}

TEST(RankBoxesOfRanks, ThatAreCutShortAreRefused) {
  const std::vector<RankBoxes> mine = {rows(0, 8)};
  const std::string whole = encode_rank_boxes(0, kLines, mine);
  for (const std::string& text : {whole, merge({whole, encode_rank_boxes(1, "", {})})}) {
    for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
      EXPECT_THAT(
          [&] { static_cast<void>(decode_rank_boxes(text.substr(0, bytes), mine, 2)); },
          Fails(Errc::malformed_metadata, AnyOf(HasSubstr("too early"), HasSubstr("does not name its rank"))))
          << bytes;
    }
  }
}

const Sharding kRows = Sharding::of_spec(Mesh({4}, {"data"}), {{"data"}});

/// What a rank holds of two arrays that a rule divides.
std::vector<RankBoxes> by_rule(std::uint32_t rank, const Sharding& rule) {
  std::vector<RankBoxes> rank_boxes;
  for (const char* name : {"a", "b"}) {
    rank_boxes.push_back({name, DType::int8, {8, 3}, rule.boxes(rank, {8, 3}), rule});
  }
  return rank_boxes;
}

std::string merged_by_rule(std::uint32_t ranks, const Sharding& rule) {
  std::vector<std::string> texts;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    texts.push_back(encode_rank_boxes(rank, kLines, by_rule(rank, rule)));
  }
  return merge_rank_boxes(texts);
}

TEST(RankBoxesByRule, AreSaidOnceForAllRanks) {
  const std::string merged = merged_by_rule(4, kRows);

  EXPECT_LE(merged.size(), merged_by_rule(1, kRows).size() + 3 * 12);
  const std::vector<PlannedArray> arrays = decode_rank_boxes(merged, by_rule(0, kRows), 4);
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].name, "a");
  EXPECT_EQ(arrays[1].sharding, kRows);
}

TEST(RankBoxesByRule, GoWithThoseOfRanksThatHaveOthers) {
  std::vector<RankBoxes> third = by_rule(2, kRows);
  third[0].rule.reset();
  std::vector<RankBoxes> last = by_rule(3, kRows);
  last[0].rule =
      Sharding::of_placements(Mesh({4}, {"x"}), {Placement::shard(0)});  // The same, said otherwise.
  const std::vector<std::string> left = {encode_rank_boxes(0, kLines, by_rule(0, kRows)),
                                         encode_rank_boxes(2, kLines, third)};
  const std::vector<std::string> right = {encode_rank_boxes(1, kLines, by_rule(1, kRows)),
                                          encode_rank_boxes(3, kLines, last)};
  const std::vector<std::string> both = {merge_rank_boxes(left), merge_rank_boxes(right)};

  const std::vector<PlannedArray> arrays = decode_rank_boxes(merge_rank_boxes(both), by_rule(0, kRows), 4);

  ASSERT_EQ(arrays.size(), 2u);
  for (const PlannedArray& array : arrays) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(array.sharding.boxes(rank, {8, 3}), kRows.boxes(rank, {8, 3})) << array.name << rank;
    }
  }
}

TEST(RankBoxesByRule, ThatAreDamagedAreRefused) {
  const std::vector<RankBoxes> mine = by_rule(0, kRows);
  const std::string whole = encode_rank_boxes(0, kLines, mine);
  for (std::size_t at = 8 + kLines.size(); at < whole.size(); ++at) {
    for (const int change : {1, 0x80}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        static_cast<void>(decode_rank_boxes(damaged, mine, 1));  // Numbers and names of rules may be others.
      } catch (const Error&) {
      }
    }
  }
  std::string unknown = whole;
  unknown[unknown.size() - 8 - 4 - 8 - 4] = 7;  // The rule of the last array.
  EXPECT_THAT([&] { static_cast<void>(decode_rank_boxes(unknown, mine, 1)); },
              Fails(Errc::malformed_metadata, HasSubstr("rule 7 of 1")));
}

/// Three arrays, of which each is what `same_as` says.
std::vector<RankBoxes> three(const std::vector<std::optional<std::uint32_t>>& same_as) {
  std::vector<RankBoxes> rank_boxes;
  for (const auto& same : same_as) {
    RankBoxes& array_boxes = rank_boxes.emplace_back(rows(0, 8));
    array_boxes.name += std::to_string(rank_boxes.size());
    array_boxes.same_as = same;
  }
  return rank_boxes;
}

using SameAs = std::vector<std::optional<std::uint32_t>>;

SameAs same_for_all(const std::vector<SameAs>& ranks) {
  std::vector<std::string> texts;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<RankBoxes> rank_boxes = three(ranks[rank]);
    for (RankBoxes& array_boxes : rank_boxes) {
      array_boxes.boxes[0].replica = rank;
    }
    texts.push_back(encode_rank_boxes(rank, kLines, rank_boxes));
  }
  const std::vector<PlannedArray> arrays =
      decode_rank_boxes(merge_rank_boxes(texts), three(ranks[0]), static_cast<std::uint32_t>(ranks.size()));
  SameAs same;
  for (const PlannedArray& array : arrays) {
    same.push_back(array.same_as);
  }
  const std::string text = encode_same(arrays) + "and more";
  std::string_view rest = text;
  EXPECT_EQ(take_same(rest, arrays.size()), same);
  EXPECT_EQ(rest, "and more");
  return same;
}

TEST(RankBoxesOfRanks, AreTheSameArrayWhereNoRankSaysOtherwise) {
  const SameAs none(3);

  EXPECT_EQ(same_for_all({none}), none);
  EXPECT_EQ(same_for_all({{{}, 0, {}}, {{}, 0, 0}}), (SameAs{{}, 0, {}}));
  EXPECT_EQ(same_for_all({{{}, 0, 0}, {{}, {}, 1}}), (SameAs{{}, {}, 1}));
  EXPECT_EQ(same_for_all({{{}, 0, 0}, {{}, 0, {}}, {{}, {}, 1}}), none);
  EXPECT_EQ(same_for_all({{{}, 0, 0}, none, {{}, 0, 0}}), none);
  EXPECT_EQ(same_for_all({{{}, {}, 0}, {{}, {}, 0}}), (SameAs{{}, {}, 0}));
}

TEST(RankBoxesOfRanks, ThatAreTheSameAsNothingBeforeThemAreRefused) {
  const auto decode = [](const SameAs& same_as, std::size_t arrays) {
    return [=] {
      std::vector<PlannedArray> planned(same_as.size());
      for (std::size_t i = 0; i < planned.size(); ++i) {
        planned[i].same_as = same_as[i];
      }
      const std::string text = encode_same(planned);
      std::string_view rest = text;
      static_cast<void>(take_same(rest, arrays));
    };
  };

  EXPECT_THAT(decode({{}, 2, {}}, 3),
              Fails(Errc::malformed_metadata, HasSubstr("array 1 is the same as array 2")));
  EXPECT_THAT(decode({{}, 0, 1}, 3),
              Fails(Errc::malformed_metadata, HasSubstr("array 2 is the same as array 1")));
  EXPECT_THAT(decode({{}, 0}, 3), Fails(Errc::malformed_metadata, HasSubstr("about 2 arrays, not 3")));
}

TEST(WriteAssignments, ComeBack) {
  const std::vector<RankBoxes> mine = {rows(0, 8), {"x", DType::int8, {}, {{Box(), 0}}, std::nullopt}};
  const std::vector<WriteAssignment> assignments = {{0, Box({2, 0}, {1, 3})}, {1, Box()}};

  EXPECT_EQ(decode_assignments(encode_assignments(assignments), mine), assignments);
}

TEST(WriteAssignments, ThatDoNotFitAreRefused) {
  const std::vector<RankBoxes> mine = {rows(0, 8)};
  const auto decode = [&](const WriteAssignment& assignment) {
    return [&mine, assignment] {
      static_cast<void>(decode_assignments(encode_assignments(std::vector{assignment}), mine));
    };
  };

  EXPECT_THAT(decode({1, Box({0, 0}, {1, 3})}), Fails(Errc::malformed_metadata, HasSubstr("array 1 of 1")));
  EXPECT_THAT(decode({0, Box({8, 0}, {1, 3})}), Fails(Errc::malformed_metadata, HasSubstr("'w'")));
}

}  // namespace
}  // namespace cairn::sharding
