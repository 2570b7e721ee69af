// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/dict_functions.hpp"

#include <memory>
#include <stdexcept>

#include <gmock/gmock.h>

#include "memory_checkpoint.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::numbers;

bool is_text(const StateDict& leaf) {
  return leaf.leaf_if<Tree>() && leaf.leaf_if<Tree>()->kind() == TreeKind::string;
}

ShardedTensor tensor(std::string key) {
  return ShardedTensor::from_rank_offsets(std::move(key), counted({2}));
}

ShardedTensorFactory factory(std::string key, ShardedTensorFactory::Build build) {
  return {std::move(key), counted({2}), std::move(build),
          [](Tree parts) { return parts["part"].as<Array>(); }};
}

TEST(ExtractMatchingValues, KeepsTheHierarchyOfBoth) {
  const StateDict dict = {{"a", "x"},
                          {"b", {{"c", "y"}, {"d", 1}}},
                          {"all", {{"e", "z"}}},
                          {"list", StateDict::list({"p", 2, "q"})}};

  const auto [matching, others] = extract_matching_values(dict, is_text);

  EXPECT_EQ(matching.tree(),
            (Tree{{"a", "x"}, {"b", {{"c", "y"}}}, {"all", {{"e", "z"}}}, {"list", Tree::list({"p", "q"})}}));
  EXPECT_EQ(others.tree(), (Tree{{"b", {{"d", 1}}}, {"list", Tree::list({2})}}));
}

TEST(ExtractMatchingValues, KeepsPositionsWhenListsBecomeMaps) {
  const auto [matching, others] = extract_matching_values(StateDict::list({"p", 2, "q"}), is_text, true);

  EXPECT_EQ(matching.tree(), (Tree{{"0", "p"}, {"2", "q"}}));
  EXPECT_EQ(others.tree(), (Tree{{"1", 2}}));
}

TEST(ExtractMatchingValues, KeepsContainersThatWereEmpty) {
  const StateDict dict = {{"a", Tree::map()}, {"b", StateDict::list({Tree::list(), StateDict()})}};

  const auto [matching, others] =
      extract_matching_values(dict, [](const StateDict& leaf) { return leaf.list_if() != nullptr; });

  EXPECT_EQ(matching.tree(), (Tree{{"b", Tree::list({Tree::list()})}}));
  EXPECT_EQ(others.tree(), (Tree{{"a", Tree::map()}, {"b", Tree::list({Tree::map()})}}));
}

TEST(ExtractMatchingValues, RefusesALeaf) {
  EXPECT_THAT([] { return extract_matching_values(StateDict(1), is_text); },
              Fails(Errc::type_mismatch, HasSubstr("a value of kind integer")));
}

TEST(Merge, AddsKeysAndGoesThroughLists) {
  StateDict into = {{"a", {{"b", 1}}}, {"list", StateDict::list({StateDict{{"x", 1}}, StateDict()})}};

  merge(into,
        {{"a", {{"c", 2}}}, {"d", 3}, {"list", StateDict::list({StateDict{{"y", 2}}, StateDict{{"z", 3}}})}});

  EXPECT_EQ(into.tree(), (Tree{{"a", {{"b", 1}, {"c", 2}}},
                               {"d", 3},
                               {"list", Tree::list({Tree{{"x", 1}, {"y", 2}}, Tree{{"z", 3}}})}}));
}

TEST(Merge, RefusesALeafThatBothHave) {
  StateDict into = {{"a", {{"b", tensor("w")}}}};

  EXPECT_THAT(
      [&] {
        merge(into, {{"a", {{"b", 1}}}});
      },
      Fails(Errc::structure_mismatch,
            HasSubstr("'a/b': both have something there: tensor 'w' and a value of kind integer")));
  EXPECT_THAT([&] { merge(into, {{"a", 1}}); }, Fails(Errc::structure_mismatch, HasSubstr("'a': both")));
}

TEST(Merge, RefusesListsOfOtherLengths) {
  StateDict into = {{"a", StateDict::list({1, 2})}};

  EXPECT_THAT(
      [&] {
        merge(into, {{"a", StateDict::list({3})}});
      },
      Fails(Errc::structure_mismatch, HasSubstr("'a': lists of 2 and 1 elements cannot be merged")));
}

TEST(Diff, NamesPathsOfTheThreeKinds) {
  const StateDict left = {
      {"a", 1}, {"b", {{"c", 2}, {"d", 3}}}, {"list", StateDict::list({1, 2, 3})}, {"same", "x"}};
  const StateDict right = {{"b", {{"c", 5}, {"e", 3}}}, {"list", StateDict::list({1, 4})}, {"same", "x"}};

  const Differences differences = diff(left, right);

  EXPECT_THAT(differences.only_left, ElementsAre("a", "b/d", "list/2"));
  EXPECT_THAT(differences.only_right, ElementsAre("b/e"));
  EXPECT_THAT(differences.mismatched, ElementsAre("b/c", "list/1"));
  EXPECT_TRUE(diff(left, left).empty());
}

TEST(Diff, ComparesTensorsAndObjectsByTheirData) {
  const StateDict left = {{"t", tensor("a")}, {"o", ShardedObject{"a", Tree(1)}}, {"n", 1}, {"f", 1}};
  const StateDict right = {
      {"t", tensor("b")}, {"o", ShardedObject{"b", Tree(1), {2}}}, {"n", 1.0}, {"f", true}};

  EXPECT_THAT(diff(left, right).mismatched, ElementsAre("f", "n"));
  EXPECT_THAT(diff({{"t", tensor("a")}}, {{"t", tensor("a").without_data()}}).mismatched, ElementsAre("t"));
  EXPECT_THAT(diff({{"t", tensor("a")}}, {{"t", counted({2})}}).mismatched, ElementsAre("t"));
}

TEST(Map, ReplacesLeavesAndKeepsContainers) {
  const StateDict dict = {{"a", 1}, {"list", StateDict::list({2, Tree::map()})}};

  const StateDict mapped =
      map(dict, [](const StateDict& leaf) { return StateDict(leaf.leaf_if<Tree>()->as<int>() * 10); });

  EXPECT_EQ(mapped.tree(), (Tree{{"a", 10}, {"list", Tree::list({20, Tree::map()})}}));
}

TEST(Map, MakesAPlainStateAShardedOne) {
  const Tree plain = {{"model", {{"w", counted({4, 2})}, {"b", counted({2})}}}, {"step", 3}};

  const StateDict sharded = map(plain, [](const StateDict& leaf) -> StateDict {
    const Array* array = leaf.leaf_if<Tree>()->array_if();
    return array ? ShardedTensor::from_rank_offsets("w", *array) : leaf;
  });

  EXPECT_TRUE(sharded.at("model/w").leaf_if<ShardedTensor>());
  EXPECT_EQ(sharded.at("step").leaf_if<Tree>()->as<int>(), 3);
}

TEST(ApplyFactories, BuildsThoseThatAreBuilt) {
  const auto inner =
      factory("inner", [](const std::string& key, const Array& data, const ReplicaId&, const auto&) {
        return StateDict{{"part", ShardedTensor::from_rank_offsets(key, data)}};
      });
  StateDict dict = {{"list", StateDict::list({factory(
                                 "outer", [inner](const auto&, const Array&, const auto&, const auto&) {
                                   return StateDict{{"part", inner}, {"kept", 5}};
                                 })})}};

  apply_factories(dict);

  EXPECT_EQ(dict.at("list/0/part/part").leaf_if<ShardedTensor>()->key, "inner");
  EXPECT_TRUE(dict.contains("list/0/kept"));
}

TEST(ApplyFactories, NamesTheFactoryThatFails) {
  const auto failing = [](ShardedTensorFactory one) {
    return [one] {
      StateDict dict = {{"model", {{"fc1", one}}}};
      apply_factories(dict);
    };
  };
  const auto throws = [](const auto&, const Array&, const auto&, const auto&) -> StateDict {
    throw std::runtime_error("out of luck");
  };
  ShardedTensorFactory itself = factory("f", throws);
  itself.build = [itself](const auto&, const Array&, const auto&, const auto&) { return StateDict(itself); };

  EXPECT_THAT(failing(factory("f", throws)),
              Fails(Errc::handler_failed, HasSubstr("'model/fc1': its factory: out of luck")));
  EXPECT_THAT(failing(factory("f", throws).without_data()),
              Fails(Errc::invalid_argument, HasSubstr("'model/fc1': its factory 'f' has no data")));
  EXPECT_THAT(failing(factory("f", {})),
              Fails(Errc::invalid_argument, HasSubstr("'model/fc1': its factory 'f' has no build")));
  EXPECT_THAT(failing(itself),
              Fails(Errc::invalid_argument,
                    HasSubstr("'model/fc1': its factory: it builds another factory in its own place")));
}

TEST(ApplyFactories, EndsWithAFactoryThatBuildsItselfForEver) {
  ShardedTensorFactory forever{"f", counted({2})};
  const auto build = std::make_shared<ShardedTensorFactory::Build>();
  *build = [build](const std::string& key, const Array& data, const ReplicaId&, const auto&) {
    return StateDict{{"x", ShardedTensorFactory{key, data, *build}}};
  };
  forever.build = *build;
  StateDict dict = {{"f", forever}};

  EXPECT_THAT([&] { apply_factories(dict); },
              Fails(Errc::invalid_argument, HasSubstr("deeper than 1000 levels")));
  *build = nullptr;
}

TEST(ApplyFactoryMerges, FindsElementsOfListsByTheirPositions) {
  const auto one =
      factory("f", [](const auto&, const Array&, const auto&, const auto&) { return StateDict(); });
  const auto [factories, others] = extract_matching_values(
      {{"list", StateDict::list({1, one})}, {"a/b", one}},
      [](const StateDict& leaf) { return leaf.leaf_if<ShardedTensorFactory>() != nullptr; }, true);
  Tree loaded = {{"list", Tree::list({Tree(1), Tree{{"part", numbers({4})}}})},
                 {"a/b", {{"part", numbers({5})}}}};

  apply_factory_merges(loaded, factories);

  EXPECT_EQ(loaded, (Tree{{"list", Tree::list({Tree(1), Tree(numbers({4}))})}, {"a/b", numbers({5})}}));
}

TEST(ApplyFactoryMerges, NamesWhatIsNotThereAndWhatFails) {
  const auto one =
      factory("f", [](const auto&, const Array&, const auto&, const auto&) { return StateDict(); });
  const auto merged_with = [](Tree loaded, const StateDict& factories) {
    return [loaded, factories] {
      Tree copy = loaded;
      apply_factory_merges(copy, factories);
    };
  };

  EXPECT_THAT(merged_with({{"a", 1}}, {{"b", one}}),
              Fails(Errc::structure_mismatch, HasSubstr("'b': nothing")));
  EXPECT_THAT(merged_with({{"a", Tree::list({1})}}, {{"a", {{"1", one}}}}),
              Fails(Errc::structure_mismatch, HasSubstr("'a/1': nothing")));
  EXPECT_THAT(merged_with({{"a", Tree::list({1})}}, {{"a", StateDict::list({one, one})}}),
              Fails(Errc::structure_mismatch, HasSubstr("'a': lists of 1 and 2 elements")));
  EXPECT_THAT(merged_with({{"a", {{"other", 1}}}}, {{"a", one}}),
              Fails(Errc::type_mismatch, HasSubstr("'a': its factory: ")));
  EXPECT_THAT(merged_with({{"a", 1}}, {{"a", ShardedTensorFactory{"f", counted({1})}}}),
              Fails(Errc::invalid_argument, HasSubstr("'a': its factory has no merge")));
}

TEST(Prefixes, ChangeTheKeysOfWhatIsSharded) {
  StateDict dict = {{"t", tensor("w")},
                    {"list", StateDict::list({ShardedObject{"rng", Tree(1)}, factory("fc1", {})})},
                    {"plain", "w"}};

  add_prefix_for_sharding(dict, "model.");
  EXPECT_EQ(dict.at("t").leaf_if<ShardedTensor>()->key, "model.w");
  EXPECT_EQ(dict.at("list/0").leaf_if<ShardedObject>()->key, "model.rng");
  EXPECT_EQ(dict.at("list/1").leaf_if<ShardedTensorFactory>()->key, "model.fc1");
  EXPECT_EQ(dict.at("plain").leaf_if<Tree>()->as<std::string>(), "w");

  replace_prefix_for_sharding(dict, "model.", "ema.");
  EXPECT_EQ(dict.at("t").leaf_if<ShardedTensor>()->key, "ema.w");

  apply_prefix_mapping(dict, {{"ema.r", "r"}, {"ema.", "x."}, {"x.", "y."}, {"rn", "never"}});
  EXPECT_EQ(dict.at("t").leaf_if<ShardedTensor>()->key, "x.w");
  EXPECT_EQ(dict.at("list/0").leaf_if<ShardedObject>()->key, "rng");
}

TEST(ReplacePrefixForSharding, ChangesNothingWhenAKeyHasAnotherPrefix) {
  StateDict dict = {{"a", tensor("model.w")}, {"b", tensor("other.w")}};

  EXPECT_THAT([&] { replace_prefix_for_sharding(dict, "model.", ""); },
              Fails(Errc::invalid_argument, HasSubstr("'other.w' does not begin with 'model.'")));
  EXPECT_EQ(dict.at("a").leaf_if<ShardedTensor>()->key, "model.w");
}

}  // namespace
}  // namespace cairn::megatron
