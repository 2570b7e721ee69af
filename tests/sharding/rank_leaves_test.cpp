// SPDX-License-Identifier: Apache-2.0
#include "sharding/internal/rank_leaves.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "sharding/job_leaves.hpp"
#include "support/fails.hpp"

namespace cairn::sharding {
namespace {

using sharding_detail::JobLeaves;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RankBoxes rows(std::uint64_t begin, std::uint64_t end, std::string name = "w", std::uint32_t replica = 0) {
  return {std::move(name), DType::int8, {8, 3}, {{Box({begin, 0}, {end - begin, 3}), replica}}, std::nullopt};
}

void add_part(RankLeaves& leaves, RankBoxes boxes) {
  leaves.leaves.add_array_in_parts(boxes.name, boxes.dtype, boxes.shape);
  leaves.boxes.push_back(std::move(boxes));
}

/// What a rank says that has a step and parts of these arrays.
RankLeaves leaves_of(std::uint32_t rank, std::vector<RankBoxes> arrays) {
  RankLeaves leaves;
  leaves.rank = rank;
  leaves.leaves.add_value("step", "integer");
  for (RankBoxes& boxes : arrays) {
    add_part(leaves, std::move(boxes));
  }
  return leaves;
}

std::string merge(const std::vector<RankLeaves>& ranks) {
  std::vector<std::string> texts;
  for (const RankLeaves& leaves : ranks) {
    texts.push_back(encode_rank_leaves(leaves));
  }
  return merge_rank_leaves(texts);
}

std::vector<PlannedArray> arrays_of(const std::string& merged, std::uint32_t ranks) {
  return JobLeaves(merged, ranks).take_arrays();
}

/// What each rank is answered.
std::vector<RankAssignments> answers_to(const std::vector<RankLeaves>& ranks,
                                        const PlanOptions& options = {}) {
  const auto count = static_cast<std::uint32_t>(ranks.size());
  const std::vector<std::string> answers = plan_answers(merge(ranks), count, options);
  std::vector<RankAssignments> decoded;
  for (const RankLeaves& leaves : ranks) {
    decoded.push_back(decode_answer(answers.at(leaves.rank), leaves));
  }
  return decoded;
}

auto refused(const std::vector<RankLeaves>& ranks) {
  return [ranks] { static_cast<void>(answers_to(ranks)); };
}

TEST(RankLeaves, ComeTogetherInTheOrderOfRanks) {
  const std::string merged =
      merge({leaves_of(0, {rows(0, 3)}), leaves_of(2, {rows(3, 4)}), leaves_of(1, {rows(4, 8)})});

  const std::vector<PlannedArray> arrays = arrays_of(merged, 3);

  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].name, "w");
  EXPECT_EQ(arrays[0].sharding.boxes(1, {8, 3}), rows(4, 8).boxes);
  EXPECT_EQ(arrays[0].sharding.boxes(2, {8, 3}), rows(3, 4).boxes);
}

TEST(RankLeaves, ThatDifferAreRefused) {
  RankLeaves of_3 = leaves_of(0, {rows(0, 8)});
  const auto refused_beside = [&](const RankLeaves& other) { return refused({of_3, other}); };
  RankLeaves null = leaves_of(1, {});
  null.leaves.add_value("v", "null");
  RankLeaves none;
  none.rank = 1;
  RankLeaves more = leaves_of(1, {rows(0, 8)});
  more.leaves.add_list("x", 3);

  EXPECT_THAT(refused_beside(null),
              Fails(Errc::invalid_argument,
                    AllOf(HasSubstr("rank 0 has 'w': sharded array of I8 [8, 3]"),
                          HasSubstr("rank 1 has 'v': null"), HasSubstr("RankPaths::joined"))));
  EXPECT_THAT(refused_beside(leaves_of(1, {})),
              Fails(Errc::invalid_argument, HasSubstr("rank 1 has nothing more")));
  EXPECT_THAT(refused_beside(none), Fails(Errc::invalid_argument,
                                          HasSubstr("rank 0 has 'step': integer, rank 1 has nothing more")));
  EXPECT_THAT(refused_beside(more),
              Fails(Errc::invalid_argument, HasSubstr("rank 0 has nothing more, rank 1 has 'x': list of 3")));
}

TEST(RankLeaves, ThatDifferNameAllOfTheRanks) {
  const auto of = [](std::uint32_t rank, const char* w, const char* x) {
    RankLeaves leaves;
    leaves.rank = rank;
    leaves.leaves.add_value("step", "integer");
    leaves.leaves.add_value("w", w);
    leaves.leaves.add_value("x", x);
    return leaves;
  };
  const auto merged = [&](const RankLeaves& zero, const std::vector<std::string>& others) {
    std::vector<std::string> texts = {encode_rank_leaves(zero)};
    texts.insert(texts.end(), others.begin(), others.end());
    return merge_rank_leaves(texts);
  };
  const std::string below = merge({of(1, "null", "null"), of(4, "list", "null")});
  const std::string beside = merge({of(2, "null", "map"), of(3, "null", "null")});

  EXPECT_THAT(
      [&] {
        static_cast<void>(arrays_of(merged(of(0, "null", "null"), {below, beside}), 5));
      },
      Fails(Errc::invalid_argument,
            HasSubstr("do not save the same: ranks 0, 1, 2 and 3 have 'w': null, rank 4 has 'w': list")));
  EXPECT_THAT([&] { static_cast<void>(arrays_of(merged(of(0, "null", "null"), {beside}), 4)); },
              Fails(Errc::invalid_argument,
                    HasSubstr("do not save the same: ranks 0 and 3 have 'x': null, rank 2 has 'x': map")));
}

TEST(RankLeaves, ThatAreCutShortAreRefused) {
  const std::string whole = encode_rank_leaves(leaves_of(0, {rows(0, 8)}));
  const std::string differing = merge({leaves_of(0, {rows(0, 8)}), leaves_of(1, {})});
  for (const std::string& text : {whole, differing}) {
    for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
      EXPECT_THAT(
          [&] { static_cast<void>(arrays_of(text.substr(0, bytes), 2)); },
          Fails(Errc::malformed_metadata, AnyOf(HasSubstr("too early"), HasSubstr("does not name its rank"))))
          << bytes;
    }
  }
}

// ---- Rules.

const Sharding kRows = Sharding::of_spec(Mesh({4}, {"data"}), {{"data"}});

/// What a rank holds of two arrays that a rule divides.
RankLeaves by_rule(std::uint32_t rank, const Sharding& rule) {
  RankLeaves leaves;
  leaves.rank = rank;
  for (const char* name : {"a", "b"}) {
    add_part(leaves, {name, DType::int8, {8, 3}, rule.boxes(rank, {8, 3}), rule});
  }
  return leaves;
}

std::string merged_by_rule(std::uint32_t ranks, const Sharding& rule) {
  std::vector<RankLeaves> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    all.push_back(by_rule(rank, rule));
  }
  return merge(all);
}

TEST(RankLeavesByRule, AreSaidOnceForAllRanks) {
  const std::string merged = merged_by_rule(4, kRows);

  EXPECT_LE(merged.size(), merged_by_rule(1, kRows).size() + 3 * 13);
  const std::vector<PlannedArray> arrays = arrays_of(merged, 4);
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].name, "a");
  EXPECT_EQ(arrays[1].sharding, kRows);
}

TEST(RankLeavesByRule, GoWithThoseOfRanksThatHaveOthers) {
  RankLeaves third = by_rule(2, kRows);
  third.boxes[0].rule.reset();
  RankLeaves last = by_rule(3, kRows);
  last.boxes[0].rule =
      Sharding::of_placements(Mesh({4}, {"x"}), {Placement::shard(0)});  // The same, said otherwise.
  const std::vector<std::string> both = {merge({by_rule(0, kRows), third}), merge({by_rule(1, kRows), last})};

  const std::vector<PlannedArray> arrays = arrays_of(merge_rank_leaves(both), 4);

  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].sharding.kind(), Sharding::Kind::table);
  EXPECT_EQ(arrays[1].sharding, kRows);  // Which all say of this one.
  for (const PlannedArray& array : arrays) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(array.sharding.boxes(rank, {8, 3}), kRows.boxes(rank, {8, 3})) << array.name << rank;
    }
  }
}

TEST(RankLeavesByRule, ThatAreDamagedAreRefused) {
  const std::string whole = encode_rank_leaves(by_rule(0, kRows));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {1, 0x80}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        static_cast<void>(plan_answers(damaged, 1, {}));  // Numbers and names of rules may be others.
      } catch (const Error&) {
      }
    }
  }
  std::string unknown = whole;
  unknown[unknown.size() - 8 - (4 + 1 + 8) - 4] = 7;  // The rule of the last array.
  EXPECT_THAT([&] { static_cast<void>(arrays_of(unknown, 1)); },
              Fails(Errc::malformed_metadata, HasSubstr("rule 7 of 1")));
}

// ---- Arrays with several names.

using SameAs = std::vector<std::optional<std::uint32_t>>;

/// Three arrays, of which each is what `same_as` says.
RankLeaves three(std::uint32_t rank, const SameAs& same_as) {
  RankLeaves leaves;
  leaves.rank = rank;
  for (const auto& same : same_as) {
    RankBoxes boxes = rows(0, 8, "w" + std::to_string(leaves.boxes.size() + 1), rank);
    boxes.same_as = same;
    add_part(leaves, std::move(boxes));
  }
  return leaves;
}

SameAs same_for_all(const std::vector<SameAs>& ranks) {
  std::vector<RankLeaves> all;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    all.push_back(three(rank, ranks[rank]));
  }
  const std::vector<RankAssignments> answers = answers_to(all);
  for (const RankAssignments& answer : answers) {
    EXPECT_EQ(answer.same_as, answers[0].same_as);
  }
  SameAs same;
  for (const PlannedArray& array : arrays_of(merge(all), static_cast<std::uint32_t>(ranks.size()))) {
    same.push_back(array.same_as);
  }
  EXPECT_EQ(answers[0].same_as, same);
  return same;
}

TEST(RankLeaves, AreTheSameArrayWhereNoRankSaysOtherwise) {
  const SameAs none(3);

  EXPECT_EQ(same_for_all({none}), none);
  EXPECT_EQ(same_for_all({{{}, 0, {}}, {{}, 0, 0}}), (SameAs{{}, 0, {}}));
  EXPECT_EQ(same_for_all({{{}, 0, 0}, {{}, {}, 1}}), (SameAs{{}, {}, 1}));
  EXPECT_EQ(same_for_all({{{}, 0, 0}, {{}, 0, {}}, {{}, {}, 1}}), none);
  EXPECT_EQ(same_for_all({{{}, 0, 0}, none, {{}, 0, 0}}), none);
  EXPECT_EQ(same_for_all({{{}, {}, 0}, {{}, {}, 0}}), (SameAs{{}, {}, 0}));
}

TEST(RankLeaves, ThatAreTheSameAsNothingOfTheirOwnAreRefused) {
  EXPECT_THAT(
      [] {
        static_cast<void>(arrays_of(encode_rank_leaves(three(0, {{}, 3, {}})), 1));
      },
      Fails(Errc::malformed_metadata, HasSubstr("array 1 is the same as array 3")));
  EXPECT_THAT(
      [] {
        static_cast<void>(arrays_of(encode_rank_leaves(three(0, {{}, 0, 1})), 1));
      },
      Fails(Errc::malformed_metadata, HasSubstr("array 2 is the same as array 1")));
}

// ---- Ranks that join their leaves.

RankLeaves joined(RankLeaves leaves) {
  leaves.paths = RankPaths::joined;
  return leaves;
}

RankLeaves nothing(std::uint32_t rank) {
  RankLeaves leaves;
  leaves.rank = rank;
  leaves.paths = RankPaths::joined;
  return leaves;
}

/// Two stages of two ranks: what is in all of them, an array of each stage, and one of the first and the last rank.
std::vector<RankLeaves> stages() {
  std::vector<RankLeaves> ranks;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const std::string stage = rank < 2 ? "a" : "b";
    const std::uint64_t begin = rank % 2 == 0 ? 0 : 4;
    RankLeaves& leaves = ranks.emplace_back(nothing(rank));
    leaves.leaves.add_array(stage + "/bias", DType::float32, {2});
    add_part(leaves, rows(begin, begin + 4, stage + "/w"));
    if (rank == 0 || rank == 3) {
      add_part(leaves, rows(0, 8, "embedding", rank));
    }
    leaves.leaves.add_value("step", "integer");
  }
  return ranks;
}

TEST(JoinedLeaves, AreThoseOfAllRanks) {
  const std::vector<PlannedArray> arrays = arrays_of(merge(stages()), 4);

  ASSERT_EQ(arrays.size(), 3u);
  EXPECT_EQ(arrays[0].name, "a/w");
  EXPECT_EQ(arrays[1].name, "embedding");
  EXPECT_EQ(arrays[2].name, "b/w");
  EXPECT_EQ(arrays[2].sharding, Sharding::of_boxes({{}, {}, rows(0, 4).boxes, rows(4, 8).boxes}));
}

TEST(JoinedLeaves, AreAnsweredInTheNumbersOfEachRank) {
  PlanOptions main;
  main.replicas = ReplicaChoice::main;
  const std::vector<RankAssignments> answers = answers_to(stages(), main);

  EXPECT_THAT(answers[0].assignments, ElementsAre(WriteAssignment{0, rows(0, 4).boxes[0].box},
                                                  WriteAssignment{1, rows(0, 8).boxes[0].box}));
  EXPECT_THAT(answers[1].assignments, ElementsAre(WriteAssignment{0, rows(4, 8).boxes[0].box}));
  EXPECT_THAT(answers[2].assignments, ElementsAre(WriteAssignment{0, rows(0, 4).boxes[0].box}));
  EXPECT_THAT(answers[3].assignments, ElementsAre(WriteAssignment{0, rows(4, 8).boxes[0].box}));
}

TEST(JoinedLeaves, ThatAreNotDividedAreWrittenByTheLowestRankThatHasThem) {
  const std::vector<RankAssignments> answers = answers_to(stages());

  EXPECT_THAT(answers[0].leaves, ElementsAre(0, 3));  // Its bias, and the step.
  EXPECT_THAT(answers[1].leaves, IsEmpty());
  EXPECT_THAT(answers[2].leaves, ElementsAre(0));
  EXPECT_THAT(answers[3].leaves, IsEmpty());
}

TEST(JoinedLeaves, ThatAllHaveAreNamedToAll) {
  const std::vector<RankAssignments> answers = answers_to(stages());

  EXPECT_THAT(answers[0].common, ElementsAre(3));
  EXPECT_THAT(answers[1].common, ElementsAre(2));
  EXPECT_THAT(answers[2].common, ElementsAre(2));
  EXPECT_THAT(answers[3].common, ElementsAre(3));
}

TEST(JoinedLeaves, TellRankZeroWhichArraysOthersHave) {
  const std::vector<RankAssignments> answers = answers_to(stages());

  EXPECT_THAT(answers[0].arrays_of_others, ElementsAre("b/bias", "b/w"));
  EXPECT_THAT(answers[3].arrays_of_others, IsEmpty());
}

TEST(JoinedLeaves, MayBeNoneOfARank) {
  const std::vector<RankAssignments> answers = answers_to({nothing(0), joined(leaves_of(1, {rows(0, 8)}))});

  EXPECT_THAT(answers[0].assignments, IsEmpty());
  EXPECT_THAT(answers[1].assignments, ElementsAre(WriteAssignment{0, rows(0, 8).boxes[0].box}));
  EXPECT_THAT(answers[1].leaves, ElementsAre(0));
}

TEST(JoinedLeaves, AreWrittenByRankZeroWhereAllHaveThem) {
  const std::vector<RankAssignments> answers =
      answers_to({joined(leaves_of(0, {rows(0, 3)})), joined(leaves_of(1, {rows(3, 8)}))});

  EXPECT_THAT(answers[0].leaves, ElementsAre(0));
  EXPECT_THAT(answers[1].leaves, IsEmpty());
}

TEST(JoinedLeaves, CountTheArraysThatARankWritesAlone) {
  std::vector<RankLeaves> ranks = {nothing(0), nothing(1), nothing(2)};
  ranks[0].leaves.add_array("a", DType::float32, {2});
  ranks[1].leaves.add_array("a", DType::float32, {2});
  ranks[1].leaves.add_array("b", DType::float64, {3});
  const std::string merged = merge(ranks);

  EXPECT_THAT(JobLeaves(merged, 3).alone_bytes(), ElementsAre(8, 24, 0));
}

TEST(JoinedLeaves, KeepARuleThatGivesNothingToOthers) {
  const Mesh last_two({2}, {"data"}, {2, 3});
  const Sharding rows_of_last = Sharding::of_spec(last_two, {{"data"}});
  std::vector<RankLeaves> ranks = {nothing(0), nothing(1), joined(by_rule(2, rows_of_last)),
                                   joined(by_rule(3, rows_of_last))};

  const std::vector<PlannedArray> arrays = arrays_of(merge(ranks), 4);

  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].sharding, rows_of_last);
}

TEST(JoinedLeaves, AreATableWhereTheRuleSpeaksOfRanksThatLackThem) {
  const Sharding copies = Sharding::replicated(3);
  const std::vector<PlannedArray> arrays =
      arrays_of(merge({nothing(0), joined(by_rule(1, copies)), joined(by_rule(2, copies))}), 3);

  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].sharding.kind(), Sharding::Kind::table);
  EXPECT_THAT(arrays[0].sharding.boxes(0, {8, 3}), IsEmpty());
  EXPECT_EQ(arrays[0].sharding.boxes(2, {8, 3}), copies.boxes(2, {8, 3}));
}

TEST(JoinedLeaves, AreOneArrayWhereTheRanksThatHaveThemSaySo) {
  RankLeaves tied = nothing(0);
  add_part(tied, rows(0, 8, "embedding"));
  add_part(tied, rows(0, 8, "head"));
  tied.boxes[1].same_as = 0;
  RankLeaves others = nothing(1);
  add_part(others, rows(0, 8, "w"));

  EXPECT_EQ(answers_to({tied, others})[0].same_as, (SameAs{{}, 0}));
  EXPECT_EQ(answers_to({others, tied}).size(), 2u);

  RankLeaves head = nothing(1);
  add_part(head, rows(0, 8, "head", 1));
  EXPECT_EQ(answers_to({tied, head})[0].same_as, SameAs(2));
}

TEST(JoinedLeaves, OfDifferentKindsAreRefused) {
  const auto sharded = [](std::uint32_t rank, DType dtype, const Shape& shape) {
    RankLeaves leaves = nothing(rank);
    add_part(leaves, {"w", dtype, shape, {}, std::nullopt});
    return leaves;
  };
  RankLeaves value = nothing(2);
  value.leaves.add_value("w", "integer");

  EXPECT_THAT(
      refused({sharded(0, DType::float32, {8, 12}), sharded(1, DType::float32, {8, 12}),
               sharded(2, DType::float32, {8, 16})}),
      Fails(Errc::shape_mismatch,
            HasSubstr("'w': ranks 0 and 1 have sharded array of F32 [8, 12], rank 2 has sharded array of "
                      "F32 [8, 16]")));
  EXPECT_THAT(refused({sharded(0, DType::float32, {4}), sharded(1, DType::int32, {4})}),
              Fails(Errc::dtype_mismatch, HasSubstr("rank 1 has sharded array of I32 [4]")));
  EXPECT_THAT(refused({sharded(0, DType::float32, {4}), nothing(1), value}),
              Fails(Errc::type_mismatch, HasSubstr("rank 2 has integer")));
}

TEST(JoinedLeaves, ThatAreAboveOthersAreRefused) {
  RankLeaves value = nothing(0);
  value.leaves.add_value("a", "integer");
  RankLeaves below = nothing(1);
  below.leaves.add_value("a/b/c", "null");
  RankLeaves list = nothing(0);
  list.leaves.add_list("a", 1);
  list.leaves.add_value("a/0", "null");
  RankLeaves root = nothing(0);
  root.leaves.add_array("", DType::float32, {2});

  EXPECT_THAT(
      refused({value, below}),
      Fails(Errc::type_mismatch, HasSubstr("'a' is integer on rank 0, and 'a/b/c' lies below it on rank 1")));
  EXPECT_THAT(refused({list, below}),
              Fails(Errc::type_mismatch,
                    HasSubstr("'a' is list of 1 on rank 0, and 'a/b/c' lies below it on rank 1")));
  EXPECT_THAT(refused({root, below}), Fails(Errc::type_mismatch, HasSubstr("the root is array of F32 [2]")));
}

TEST(JoinedLeaves, TakeTheElementsOfAListFromAnyRank) {
  RankLeaves list = nothing(0);
  list.leaves.add_list("a", 1);
  list.leaves.add_value("a/0", "null");
  RankLeaves same = list;
  same.rank = 1;
  same.leaves.add_value("b", "null");

  const std::vector<RankAssignments> answers = answers_to({list, same});

  EXPECT_THAT(answers[0].leaves, ElementsAre(0, 1));
  EXPECT_THAT(answers[1].leaves, ElementsAre(2));
}

TEST(JoinedLeaves, LeaveOutAnEmptyMapInWhichOthersHaveSomething) {
  RankLeaves empty = nothing(0);
  empty.leaves.add_empty_map("a");
  RankLeaves below = nothing(1);
  below.leaves.add_value("a/b", "null");

  EXPECT_THAT(answers_to({empty, below})[0].leaves, IsEmpty());
  EXPECT_THAT(answers_to({empty, nothing(1)})[0].leaves, ElementsAre(0));
}

TEST(JoinedLeaves, ThatARankBringsTwiceAreRefused) {
  RankLeaves twice = nothing(1);
  add_part(twice, rows(0, 8));
  add_part(twice, rows(0, 8));

  EXPECT_THAT(refused({nothing(0), twice}),
              Fails(Errc::invalid_argument, HasSubstr("'w' is brought twice by rank 1")));
}

TEST(JoinedLeaves, AreRefusedBesideSuchThatMustBeTheSame) {
  EXPECT_THAT(refused({leaves_of(0, {}), joined(leaves_of(1, {}))}),
              Fails(Errc::invalid_argument, HasSubstr("some ranks join their leaves")));
}

TEST(JoinedLeaves, AreSharedOutInTheGroupOfTheirMainReplica) {
  std::vector<RankLeaves> ranks;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    RankLeaves& leaves = ranks.emplace_back(nothing(rank));
    leaves.group = rank % 2 == 0 ? std::vector<std::uint32_t>{0, 2} : std::vector<std::uint32_t>{1, 3};
    add_part(leaves, rows(0, 8, "w", rank == 1 ? 0 : 1 + rank));
    add_part(leaves, rows(0, 8, "v", rank == 1 ? 0 : 1 + rank));
  }

  const std::vector<RankAssignments> answers = answers_to(ranks, ReplicaChoice::balanced);

  EXPECT_THAT(answers[0].assignments, IsEmpty());
  EXPECT_EQ(answers[1].assignments.size(), 1u);
  EXPECT_THAT(answers[2].assignments, IsEmpty());
  EXPECT_EQ(answers[3].assignments.size(), 1u);

  ranks[3].group = {3};
  EXPECT_THAT(refused(ranks), Fails(Errc::invalid_argument, HasSubstr("the group that rank 1 names")));
  ranks[3].group = {2};
  EXPECT_THAT(refused(ranks),
              Fails(Errc::invalid_argument, HasSubstr("rank 3 says that its group is rank 2")));
}

// ---- Answers.

RankLeaves whole_of_rank_0() {
  RankLeaves leaves = leaves_of(0, {rows(0, 8)});
  add_part(leaves, {"x", DType::int8, {}, {{Box(), 0}}, std::nullopt});
  return leaves;
}

TEST(RankAnswers, SayOnceThatARankWritesAllItHolds) {
  const std::vector<RankLeaves> ranks = {whole_of_rank_0()};
  const std::vector<std::string> answers = plan_answers(merge(ranks), 1, {});

  EXPECT_LT(answers[0].size(), 40u);
  EXPECT_THAT(decode_answer(answers[0], ranks[0]).assignments,
              ElementsAre(WriteAssignment{0, Box::whole({8, 3})}, WriteAssignment{1, Box()}));
}

TEST(RankAnswers, ThatDoNotFitAreRefused) {
  const std::vector<RankLeaves> ranks = {leaves_of(0, {rows(0, 8)}), leaves_of(1, {rows(0, 8, "w", 1)})};
  const std::string answer = plan_answers(merge(ranks), 2, ReplicaChoice::main)[0];
  const RankLeaves none = leaves_of(0, {});
  RankLeaves smaller = leaves_of(0, {rows(0, 4)});
  smaller.boxes[0].shape = {4, 3};

  EXPECT_EQ(decode_answer(answer, ranks[0]).assignments.size(), 1u);
  EXPECT_THAT([&] { static_cast<void>(decode_answer(answer, none)); },
              Fails(Errc::malformed_metadata, HasSubstr("array 0 of 0")));
  EXPECT_THAT([&] { static_cast<void>(decode_answer(answer, smaller)); },
              Fails(Errc::malformed_metadata, HasSubstr("'w'")));
  for (std::size_t bytes = 0; bytes + 1 < answer.size(); ++bytes) {
    const std::string cut = answer.substr(0, bytes);
    if (bytes != 32) {  // Where assignments begin: there may be none.
      EXPECT_THAT([&] { static_cast<void>(decode_answer(cut, ranks[0])); },
                  Fails(Errc::malformed_metadata, HasSubstr("too early")))
          << bytes;
    }
  }
  EXPECT_THAT(
      [&] {
        const std::vector<std::string> joins = plan_answers(merge(stages()), 4, {});
        static_cast<void>(decode_answer(joins[0], nothing(0)));
      },
      Fails(Errc::malformed_metadata, HasSubstr("of 0")));
}

TEST(LeafLists, KnowTheirPaths) {
  const std::vector<RankLeaves> ranks = stages();

  EXPECT_EQ(ranks[0].leaves.size(), 4u);
  EXPECT_EQ(ranks[0].leaves.path(0), "a/bias");
  EXPECT_EQ(ranks[0].leaves.path(3), "step");
}

}  // namespace
}  // namespace cairn::sharding
