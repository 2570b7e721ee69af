// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/tree.hpp"

#include <array>
#include <cmath>
#include <concepts>
#include <limits>

#include <gmock/gmock.h>

#include "support/fails.hpp"
#include "support/sanitizer.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

Tree nested_lists(std::size_t depth) {
  Tree tree = 1;
  for (std::size_t i = 0; i < depth; ++i) {
    Tree::List one;
    one.push_back(std::move(tree));
    tree = Tree::list(std::move(one));
  }
  return tree;
}

std::vector<std::string> paths(const Tree& tree) {
  std::vector<std::string> found;
  visit_leaves(tree, [&](std::string_view path, const Tree&) { found.emplace_back(path); });
  return found;
}

/// A tree that is gone at the end of the expression, as what a load returns.
Tree made() {
  return {{"weights", {{"w", std::vector<float>{1, 2}}}}, {"list", Tree::list({1, "two"})}};
}

TEST(TemporaryTree, ReturnsItsPartsAsValues) {
  static_assert(std::same_as<decltype(made()["list"]), Tree>);
  static_assert(std::same_as<decltype(made()[0]), Tree>);
  static_assert(std::same_as<decltype(made().at("list")), Tree>);
  static_assert(std::same_as<decltype(made().as_map()), Tree::Map>);
  static_assert(std::same_as<decltype(made().as_list()), Tree::List>);

  const Tree& weights = made().at("weights");
  EXPECT_THAT(weights.get<std::vector<float>>("w"), ElementsAre(1, 2));
  std::vector<std::string> keys;
  for (const auto& [key, child] : made().as_map()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys, ElementsAre("list", "weights"));
  EXPECT_EQ(made()["list"][1].as<std::string>(), "two");
  EXPECT_THAT([] { static_cast<void>(made()["absent"]); }, Fails(Errc::not_found, HasSubstr("absent")));
}

TEST(TreeAs, RoundsNumbersToFloatAndRefusesThoseBeyondItsRange) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(Tree(0.1).as<float>(), 0.1F);
  EXPECT_EQ(Tree(1e-300).as<float>(), 0.0F);
  EXPECT_EQ(Tree(-kInfinity).as<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(Tree(std::nan("")).as<float>()));
  EXPECT_THAT([] { static_cast<void>(Tree(-1e300).as<float>()); },
              Fails(Errc::unsafe_cast, HasSubstr("the node is -1e+300")));
  EXPECT_EQ(Tree(1e300).as<double>(), 1e300);
}

TEST(TreeBraces, PairsThatBeginWithStringsAreAMap) {
  const Tree tree = {{"params", {{"w", 1}, {"b", 2}}}, {"step", 100}};

  EXPECT_EQ(tree["params"]["b"].as<int>(), 2);
  EXPECT_EQ(tree["step"].as<std::int64_t>(), 100);
}

TEST(TreeBraces, OtherItemsAreAList) {
  const Tree tree = {1, "two", {3, 4}};

  EXPECT_EQ(tree.size(), 3U);
  EXPECT_EQ(tree[1].as<std::string>(), "two");
  EXPECT_EQ(tree[2][1].as<int>(), 4);
}

TEST(TreeBraces, OneStringAndAValueAreAListOfTwo) {
  EXPECT_TRUE(Tree({"a", "b"}).is_list());
}

TEST(TreeBraces, ListMakesAListOfPairs) {
  const Tree tree = Tree::list({{"a", 1}, {"b", 2}});

  EXPECT_TRUE(tree.is_list());
  EXPECT_EQ(tree[0][0].as<std::string>(), "a");
}

TEST(TreeBraces, EmptyBracesInsideAreAnEmptyMap) {
  const Tree tree = {{"a", {}}};

  EXPECT_TRUE(tree["a"].is_map());
  EXPECT_EQ(tree["a"].size(), 0U);
}

TEST(TreeBraces, RefuseAKeyThatIsGivenTwice) {
  EXPECT_THAT([] { Tree({{"a", 1}, {"a", 2}}); }, Fails(Errc::invalid_argument, HasSubstr("'a'")));
}

TEST(TreeLeaf, BorrowsALvalueVector) {
  std::vector<float> weights = {1, 2};
  const Tree tree = {{"w", weights}};

  weights[0] = 7;

  EXPECT_THAT(tree["w"].as<std::vector<float>>(), ElementsAre(7, 2));
}

TEST(TreeLeaf, TakesOverATemporaryVector) {
  const Tree tree = std::vector<float>{1, 2};

  EXPECT_NE(tree.as<Array>().owner(), nullptr);
  EXPECT_THAT(tree.as<std::span<const float>>(), ElementsAre(1, 2));
}

TEST(TreeLeaf, VectorOfBytesIsBytesAndASpanOfThemAnArray) {
  const Bytes bytes(3);

  EXPECT_EQ(Tree(bytes).kind(), TreeKind::bytes);
  EXPECT_EQ(Tree(std::span(bytes)).kind(), TreeKind::array);
}

TEST(TreeLeaf, KeepsTheLargestUnsignedInteger) {
  constexpr auto kLargest = std::numeric_limits<std::uint64_t>::max();

  EXPECT_EQ(Tree(kLargest).as<std::uint64_t>(), kLargest);
}

TEST(TreeAs, RefusesAnotherKindAndNamesThePath) {
  const Tree tree = {{"a", {{"b", 1}}}};

  EXPECT_THAT([&] { static_cast<void>(tree.get<std::string>("a/b")); },
              Fails(Errc::type_mismatch, HasSubstr("'a/b' is of kind integer, not string")));
}

TEST(TreeAs, RefusesAnIntegerThatDoesNotFit) {
  EXPECT_THAT([] { static_cast<void>(Tree(300).as<std::uint8_t>("n")); },
              Fails(Errc::unsafe_cast, HasSubstr("'n' is 300")));
}

TEST(TreeAs, RefusesAnArrayOfOtherElements) {
  const Tree tree = std::vector<float>{1};

  EXPECT_THAT(
      [&] { static_cast<void>(tree.as<std::span<const double>>("w")); },
      Fails(Errc::dtype_mismatch, HasSubstr("'w' is an array of F32, not of F64; a load that asks for "
                                            "F64 casts it")));
}

TEST(TreePath, WithATildeThatIsNoEscapeNamesThatKey) {
  const Tree tree = {{"w~", 1}, {"a/b", {{"~x~", 2}}}};

  EXPECT_EQ(tree.get<int>("w~"), 1);
  EXPECT_EQ(tree.get<int>("a~1b/~x~"), 2);
  EXPECT_FALSE(tree.contains("w~1~"));
  EXPECT_EQ(tree.find("~"), nullptr);
  EXPECT_EQ(tree.find("a//b"), nullptr);
  EXPECT_THAT([&] { static_cast<void>(tree.get<int>("~5")); }, Fails(Errc::not_found, HasSubstr("no '~5'")));
}

TEST(TreeAs, TakesTheElementOfAnArrayOfRank0) {
  const float loss = 0.5F;
  const std::int64_t step = 7;
  const BFloat16 rate{0x4000};
  const bool is_done = true;
  const Tree tree = {{"loss", ArrayView(&loss, {}, DType::float32)},
                     {"step", ArrayView(&step, {}, DType::int64)},
                     {"rate", ArrayView(&rate, {}, DType::bfloat16)},
                     {"done", ArrayView(&is_done, {}, DType::boolean)}};

  EXPECT_EQ(tree.get<float>("loss"), 0.5F);
  EXPECT_EQ(tree.get<int>("step"), 7);
  EXPECT_EQ(tree.get<double>("step"), 7.0);
  EXPECT_EQ(tree.get<double>("rate"), 2.0);
  EXPECT_TRUE(tree.get<bool>("done"));
  EXPECT_THAT([&] { static_cast<void>(tree.get<int>("loss")); },
              Fails(Errc::unsafe_cast, HasSubstr("'loss' is 0.5, a floating-point number")));
  EXPECT_THAT([&] { static_cast<void>(tree.get<int>("done")); },
              Fails(Errc::type_mismatch, HasSubstr("'done' is of kind array, not integer")));
}

TEST(TreeAs, CopiesAStridedArrayInOrder) {
  const std::array<std::int32_t, 4> values = {1, 2, 3, 4};
  const ArrayView transposed = ArrayView(values.data(), {2, 2}, DType::int32).transposed();

  EXPECT_THAT(Tree(transposed).as<std::vector<std::int32_t>>(), ElementsAre(1, 3, 2, 4));
}

TEST(TreeAt, FindsKeysWithSlashesAndTildes) {
  const Tree tree = {{"a/b", {{"~", 1}, {"", 2}}}};

  EXPECT_EQ(tree.at("a~1b/~0").as<int>(), 1);
  EXPECT_EQ(tree.at("a~1b/~2").as<int>(), 2);
}

TEST(TreeAt, NamesAMissingPath) {
  const Tree tree = {{"a", 1}};

  EXPECT_THAT([&] { static_cast<void>(tree.at("a/b")); }, Fails(Errc::not_found, HasSubstr("'a/b'")));
}

TEST(TreeAt, TakesDecimalKeysOfListsWithoutLeadingZeros) {
  const Tree tree = {{"l", {5, 6}}};

  EXPECT_EQ(tree.at("l/1").as<int>(), 6);
  EXPECT_FALSE(tree.contains("l/01"));
  EXPECT_FALSE(tree.contains("l/2"));
}

TEST(TreeSubscript, TurnsNullIntoAMap) {
  Tree tree;
  tree["a"]["b"] = 1;

  EXPECT_EQ(tree.at("a/b").as<int>(), 1);
}

TEST(TreeSubscript, RefusesALeaf) {
  Tree tree = 1;
  EXPECT_THAT([&] { tree["a"]; }, Fails(Errc::type_mismatch, HasSubstr("map")));
}

TEST(TreeCopy, IsIndependentButSharesTheElementsOfArrays) {
  const Tree tree = {{"a", {1, 2}}, {"w", std::vector<float>{1}}};
  Tree copy = tree;

  copy["a"].push_back(3);

  EXPECT_EQ(tree["a"].size(), 2U);
  EXPECT_EQ(copy["w"].as<Array>().view().data(), tree["w"].as<Array>().view().data());
}

TEST(TreeEquality, ComparesValuesAndStructure) {
  const Tree tree = {{"a", {1, 2.5, nullptr}}, {"b", std::vector<int>{1}}};

  EXPECT_EQ(tree, Tree({{"a", {1, 2.5, nullptr}}, {"b", std::vector<int>{1}}}));
  EXPECT_NE(tree, Tree({{"a", {1, 2.5, nullptr}}, {"b", std::vector<int>{2}}}));
  EXPECT_NE(tree, Tree({{"a", {1, 2.5}}, {"b", std::vector<int>{1}}}));
  EXPECT_NE(Tree(1), Tree(1.0));
}

TEST(TreeEquality, TakesEqualNaNsAsEqual) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Tree(nan), Tree(nan));
}

TEST(TreeVisit, ShowsLeavesListsAndEmptyMaps) {
  const Tree tree = {{"a", {{"x", 1}}}, {"b", Tree::map()}, {"c", {7, 8}}};

  EXPECT_THAT(paths(tree), ElementsAre("a/x", "b", "c", "c/0", "c/1"));
}

TEST(TreeDepth, AThousandLevelsAreVisited) {
  EXPECT_EQ(paths(nested_lists(kMaxTreeDepth)).size(), kMaxTreeDepth + 1);
}

TEST(TreeDepth, TenThousandLevelsAreRefused) {
  const Tree tree = nested_lists(10'000);
  EXPECT_THAT([&] { paths(tree); }, Fails(Errc::invalid_argument, HasSubstr("deeper than 1000")));
}

TEST(TreeDepth, AMillionLevelsAreCopiedComparedAndDestroyed) {
  const Tree tree = nested_lists(testing::kHasSanitizer ? 200'000 : 1'000'000);
  const Tree copy = tree;  // NOLINT(performance-unnecessary-copy-initialization)

  EXPECT_TRUE(copy == tree);
}

}  // namespace
}  // namespace cairn
