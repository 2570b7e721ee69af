// SPDX-License-Identifier: Apache-2.0
#include "megatron/common_state.hpp"

#include <gmock/gmock.h>

#include "memory_checkpoint.hpp"

namespace cairn::megatron {
namespace {

using detail::compare;
using detail::hash_of;
using detail::hashed_leaves;
using testing::counted;
using ::testing::ElementsAre;
using testing::numbers;

Differences differences(const Tree& left, const Tree& right) {
  return compare(hashed_leaves(left), hashed_leaves(right));
}

TEST(CommonState, HasOneHashWhereRanksAgree) {
  const Tree state = {{"lr", 0.5}, {"args", {{"names", Tree::list({"a", "b"})}, {"shape", counted({2, 3})}}}};

  EXPECT_EQ(hash_of(hashed_leaves(state)), hash_of(hashed_leaves(Tree(state))));
  EXPECT_TRUE(differences(state, state).empty());
}

TEST(CommonState, DiffersInEachKindOfValue) {
  const std::pair<Tree, Tree> pairs[] = {{1, 2},
                                         {1, 1.0},
                                         {1.0, 1.5},
                                         {0.0, -0.0},
                                         {true, 1},
                                         {true, false},
                                         {"a", "b"},
                                         {"1", 1},
                                         {nullptr, Tree::map()},
                                         {Tree::list(), Tree::map()},
                                         {UINT64_MAX, -1},
                                         {Bytes{std::byte{1}}, Bytes{std::byte{2}}},
                                         {counted({2}), counted({2}, 1)},
                                         {counted({2}), counted({1, 2})},
                                         {counted({1}), Tree(Array::zeros({1}, DType::float32))}};
  for (const auto& [left, right] : pairs) {
    EXPECT_THAT(differences({{"a", {{"b", left}}}}, {{"a", {{"b", right}}}}).mismatched, ElementsAre("a/b"));
    EXPECT_NE(hash_of(hashed_leaves(left)), hash_of(hashed_leaves(right)));
  }
}

TEST(CommonState, ComparesTheElementsOfStridedArrays) {
  const Array column = counted({3, 2}).part(Box({0, 1}, {3, 1}));

  EXPECT_TRUE(differences({{"a", column}}, {{"a", column.clone()}}).empty());
  EXPECT_FALSE(differences({{"a", column}}, {{"a", numbers({1, 3, 6}).reshaped({3, 1})}}).empty());
}

TEST(CommonState, NamesPathsOfTheThreeKinds) {
  const Tree left = {{"a", {{"b", 1}}}, {"lr", 0.5}, {"same", 1}, {"list", Tree::list({1, 2})}};
  const Tree right = {{"lr", 0.6}, {"same", 1}, {"z", 1}, {"list", Tree::list({1})}};

  const Differences found = differences(left, right);

  SomeRanks rank_3;
  rank_3.add(3);
  EXPECT_EQ(detail::text_of(detail::summary_of(found), rank_3),
            "common state of rank 3 differs from rank 0's: only on rank 0: 'a/b', 'list/1'; only "
            "on rank 3: 'z'; other values: 'list', 'lr'");
}

TEST(CommonState, SaysThatAKindIsEmptyAndNamesTwentyPaths) {
  Differences found;
  for (int i = 0; i < 25; ++i) {
    found.only_left.push_back("k" + std::to_string(i));
  }

  SomeRanks rank_1;
  rank_1.add(1);
  const std::string text = detail::text_of(detail::summary_of(found), rank_1);

  EXPECT_THAT(text, ::testing::HasSubstr("'k19' and 5 more; only on rank 1: -; other values: -"));
}

}  // namespace
}  // namespace cairn::megatron
