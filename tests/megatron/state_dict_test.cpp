// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/state_dict.hpp"

#include <concepts>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "memory_checkpoint.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using testing::Fails;
using ::testing::HasSubstr;

StateDict example() {
  return {{"weight", ShardedTensor::from_rank_offsets("w", counted({4}))},
          {"rng", ShardedObject{"rng", Tree(7)}},
          {"cache", LocalNonpersistentObject{Tree("here")}},
          {"optimizer", {{"step", 100}, {"lr", 0.5}, {"name", "adam"}, {"none", nullptr}}},
          {"list", StateDict::list({1, "two", ShardedTensor::from_rank_offsets("v", counted({2}))})},
          {"empty", Tree::map()}};
}

template <class Dict>
concept PointsIntoIt = requires(Dict dict) {
  std::forward<Dict>(dict).find("a");
}
|| requires(Dict dict) {
  std::forward<Dict>(dict).map_if();
}
|| requires(Dict dict) {
  std::forward<Dict>(dict).list_if();
}
|| requires(Dict dict) {
  std::forward<Dict>(dict).template leaf_if<Tree>();
};

TEST(TemporaryStateDict, ReturnsItsPartsAsValues) {
  static_assert(PointsIntoIt<StateDict&> && PointsIntoIt<const StateDict&>);
  static_assert(!PointsIntoIt<StateDict> && !PointsIntoIt<const StateDict>);
  static_assert(std::same_as<decltype(example()["list"]), StateDict>);

  const StateDict& list = example().at("list");
  EXPECT_EQ(list[1].tree().as<std::string>(), "two");
  EXPECT_EQ(example()["optimizer"]["step"].tree().as<int>(), 100);
}

TEST(StateDict, IsMadeOfBraces) {
  const StateDict dict = example();

  EXPECT_EQ(dict.at("weight").leaf_if<ShardedTensor>()->key, "w");
  EXPECT_EQ(dict.at("rng").leaf_if<ShardedObject>()->key, "rng");
  EXPECT_EQ(dict.at("cache").leaf_if<LocalNonpersistentObject>()->value, Tree("here"));
  EXPECT_EQ(dict.at("optimizer/step").leaf_if<Tree>()->as<int>(), 100);
  EXPECT_EQ(dict.at("optimizer/name").leaf_if<Tree>()->as<std::string>(), "adam");
  EXPECT_EQ(dict.at("list/1").leaf_if<Tree>()->as<std::string>(), "two");
  EXPECT_EQ(dict.at("list/2").leaf_if<ShardedTensor>()->key, "v");
  EXPECT_TRUE(dict.at("empty").map_if()->empty());
  EXPECT_EQ(dict.at("weight").leaf_if<Tree>(), nullptr);
  EXPECT_EQ(dict.at("optimizer").leaf_if<Tree>(), nullptr);
}

TEST(StateDict, TakesAKeyOnce) {
  const auto make = [] { return StateDict{{"a", 1}, {"a", 2}}; };

  EXPECT_THAT(make, Fails(Errc::invalid_argument, HasSubstr("key 'a' is given twice")));
}

TEST(StateDict, OfATreeHasItsContainers) {
  const Tree tree = {{"a", {{"b", 1}, {"c", Tree::list({1, 2})}}}, {"empty", Tree::list()}};

  const StateDict dict = tree;

  EXPECT_EQ(dict.at("a/c/1").leaf_if<Tree>()->as<int>(), 2);
  EXPECT_TRUE(dict.at("empty").list_if()->empty());
  EXPECT_EQ(dict.tree(), tree);
}

TEST(StateDict, GrowsByItsKeys) {
  StateDict dict;

  dict["model"]["layers"]["w"] = ShardedTensor::from_rank_offsets("w", counted({4}));
  dict["step"] = 5;

  EXPECT_TRUE(dict.at("model/layers/w").leaf_if<ShardedTensor>());
  EXPECT_EQ(dict["step"].leaf_if<Tree>()->as<int>(), 5);
  EXPECT_THAT([&] { dict["step"]["more"] = 1; },
              Fails(Errc::type_mismatch, HasSubstr("a value of kind integer")));
}

TEST(StateDict, CopiesHaveContainersOfTheirOwn) {
  const StateDict original = example();

  StateDict copy = original;
  copy["optimizer"]["step"] = 101;
  copy["weight"] = 1;

  EXPECT_EQ(original.at("optimizer/step").leaf_if<Tree>()->as<int>(), 100);
  EXPECT_TRUE(original.at("weight").leaf_if<ShardedTensor>());
  EXPECT_EQ(copy.at("rng").leaf_if<ShardedObject>(), original.at("rng").leaf_if<ShardedObject>());
}

TEST(StateDict, IsEmptyWhenItWasMovedFrom) {
  StateDict list = StateDict::list({1});

  const StateDict taken = std::move(list);

  EXPECT_EQ(taken.list_if()->size(), 1U);
  EXPECT_TRUE(list.map_if()->empty());  // NOLINT(bugprone-use-after-move): what is left is said.
}

TEST(StateDict, NamesWhatIsNotThere) {
  const StateDict dict = example();

  EXPECT_EQ(dict.find("optimizer/nothing"), nullptr);
  EXPECT_EQ(dict.find("list/3"), nullptr);
  EXPECT_EQ(dict.find("list/1x"), nullptr);
  EXPECT_EQ(dict.find("weight/deeper"), nullptr);
  EXPECT_EQ(dict.find("bad~path"), nullptr);
  EXPECT_EQ(dict.find(""), &dict);
  EXPECT_THAT([&] { return dict.at("a/b"); }, Fails(Errc::not_found, HasSubstr("'a/b'")));
  EXPECT_THAT([&] { return dict["nothing"]; }, Fails(Errc::not_found));
  EXPECT_THAT([&] { return dict["list"][3]; }, Fails(Errc::not_found));
  EXPECT_THAT([&] { return dict["optimizer"][0]; }, Fails(Errc::type_mismatch));
}

TEST(StateDict, FindsKeysWithSlashes) {
  const StateDict dict = {{"a/b", 1}, {"", {{"~", 2}}}};

  EXPECT_TRUE(dict.contains("a~1b"));
  EXPECT_TRUE(dict.contains("~2/~0"));
}

TEST(StateDictTree, NamesALeafThatIsNotPlain) {
  EXPECT_THAT([] { return example().tree(); },
              Fails(Errc::type_mismatch, HasSubstr("'cache' is a local object, not a plain value")));
}

TEST(StateDict, RefusesATreeThatIsTooDeep) {
  Tree tree = 1;
  for (std::size_t i = 0; i <= kMaxTreeDepth; ++i) {
    tree = Tree::list({std::move(tree)});
  }

  EXPECT_THAT([&] { return StateDict(tree); },
              Fails(Errc::invalid_argument, HasSubstr("deeper than 1000 levels")));
  EXPECT_NO_THROW(static_cast<void>(StateDict(tree[0])));
}

}  // namespace
}  // namespace cairn::megatron
