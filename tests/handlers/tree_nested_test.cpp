// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <boost/describe/class.hpp>
#include <gmock/gmock.h>

#include "cairn/handlers/describe.hpp"
#include "cairn/handlers/tree_values.hpp"

#include "support/fails.hpp"

namespace cairn {

/// A type that says itself how it is a tree.
struct Celsius {
  double degrees = 0;
  friend bool operator==(const Celsius&, const Celsius&) = default;
};

template <>
struct TreeForm<Celsius> {
  static Tree make(const Celsius& value) { return {{"celsius", value.degrees}}; }
  static void read(const Tree& tree, Celsius& value, TreeReader& at) {
    const detail::PathKey key(at.path, "celsius");
    value.degrees = tree["celsius"].as<double>(at.path, at.narrowing);
  }
};

namespace {

using testing::Fails;
using ::testing::HasSubstr;

enum class Colour : std::uint8_t { red, green };

struct Layer {
  std::vector<float> weights;
  friend bool operator==(const Layer&, const Layer&) = default;
};
BOOST_DESCRIBE_STRUCT(Layer, (), (weights))

/// `value` as a tree, and back.
template <class T>
void expect_round_trip(const T& value) {
  const Tree tree = {{"value", value}};
  EXPECT_EQ(tree.get<T>("value"), value);
}

TEST(TreeNested, StandardContainersComeBack) {
  expect_round_trip(std::vector<std::string>{"a", "", "c/d"});
  expect_round_trip(std::vector<std::vector<float>>{{1, 2}, {}, {3}});
  expect_round_trip(std::vector<bool>{true, false});
  expect_round_trip(std::vector<bool>{});
  expect_round_trip(std::map<std::string, double>{{"x", 0.5}, {"", 1}});
  expect_round_trip(std::unordered_map<std::string, std::vector<int>>{{"x", {1}}, {"y", {}}});
  expect_round_trip(std::optional<std::string>{"here"});
  expect_round_trip(std::optional<std::vector<int>>{});
  expect_round_trip(std::pair<int, std::string>{3, "three"});
  expect_round_trip(std::tuple<bool, double, std::vector<int>>{true, 0.5, {1, 2}});
  expect_round_trip(std::tuple<>{});
  expect_round_trip(std::array<std::string, 2>{"a", "b"});
  expect_round_trip(std::array<double, 2>{1, 2});
  expect_round_trip(Colour::green);
  expect_round_trip(std::vector<Colour>{Colour::green, Colour::red});
}

TEST(TreeNested, KeysMayBeNumbersAndEnums) {
  const std::map<std::int64_t, std::string> names = {{-3, "minus three"}, {10, "ten"}};
  const std::map<Colour, int> counts = {{Colour::green, 7}};

  EXPECT_EQ(Tree(names)["-3"].as<std::string>(), "minus three");
  expect_round_trip(names);
  expect_round_trip(counts);
}

TEST(TreeNested, TypesMaySayThemselvesHowTheyAreTrees) {
  expect_round_trip(std::vector<Celsius>{{20.5}, {-3}});
  expect_round_trip(std::map<std::string, Layer>{{"first", {{1, 2}}}});
}

TEST(TreeNested, BorrowsTheArraysOfContainersThatStay) {
  std::vector<std::vector<float>> rows = {{1, 2}, {3}};
  const Tree tree = rows;

  EXPECT_EQ(tree[0].as<Array>().view().data(), reinterpret_cast<const std::byte*>(rows[0].data()));
  EXPECT_EQ(tree[0].as<Array>().owner(), nullptr);
  EXPECT_TRUE(tree[0].as<Array>().is_mutable());
}

TEST(TreeNested, TakesOverTheArraysOfTemporaries) {
  const Tree rows = std::vector<std::vector<float>>{{1, 2}, {3}};
  const Tree layer = Layer{{4, 5}};
  const Tree optional = std::optional(std::vector<int>{6});

  for (const Tree* array : {&rows[0], &layer["weights"], &optional}) {
    EXPECT_NE(array->as<Array>().owner(), nullptr);
  }
  EXPECT_EQ(layer.get<std::vector<float>>("weights"), (std::vector<float>{4, 5}));
}

// What would be borrowed from a temporary, or would not come back, is no tree.
static_assert(!std::constructible_from<Tree, const std::vector<std::vector<float>>>);
static_assert(!std::constructible_from<Tree, TreeKind>);
static_assert(!TreeValue<std::optional<std::optional<int>>>);
static_assert(!TreeValue<std::map<double, int>>);
static_assert(!TreeValue<std::vector<void*>>);

TEST(TreeNested, NamesTheElementOfAnotherKind) {
  const Tree tree = {{"names", Tree::list({"a", 2})}, {"rows", Tree::list({std::vector<double>{1}})}};

  EXPECT_THAT([&] { static_cast<void>(tree.get<std::vector<std::string>>("names")); },
              Fails(Errc::type_mismatch, HasSubstr("'names/1' is of kind integer")));
  EXPECT_THAT([&] { static_cast<void>(tree.get<std::vector<std::vector<float>>>("rows")); },
              Fails(Errc::dtype_mismatch,
                    HasSubstr("'rows/0': stored dtype F64, wanted F32; a load that asks for F32 casts it")));
}

TEST(TreeNested, NamesContainersOfAnotherKindOrLength) {
  const Tree tree = {{"pair", Tree::list({1, 2, 3})}, {"map", 5}};

  EXPECT_THAT([&] { static_cast<void>((tree.get<std::pair<int, int>>("pair"))); },
              Fails(Errc::shape_mismatch, HasSubstr("'pair': stored 3 elements, wanted 2")));
  EXPECT_THAT([&] { static_cast<void>((tree.get<std::map<std::string, int>>("map"))); },
              Fails(Errc::type_mismatch, HasSubstr("'map' is of kind integer, not map")));
  EXPECT_THAT([&] { static_cast<void>(tree.get<std::vector<bool>>("map")); },
              Fails(Errc::type_mismatch, HasSubstr("'map'")));
}

TEST(TreeNested, NamesKeysThatAreNotTheNumbersOfAMap) {
  for (const char* key : {"one", "01", "", "+1", "99999999999999999999"}) {
    Tree tree = Tree::map();
    tree[key] = 1;
    EXPECT_THAT([&] { static_cast<void>((tree.as<std::map<int, int>>())); },
                Fails(Errc::type_mismatch, HasSubstr("the key is not an integer")))
        << key;
  }
  Tree tree = Tree::map();
  tree["300"] = 1;
  EXPECT_THAT([&] { static_cast<void>((tree.as<std::map<std::uint8_t, int>>("counts"))); },
              Fails(Errc::unsafe_cast, HasSubstr("'counts/300' is 300, which does not fit")));
}

TEST(TreeNested, NumbersInContainersFollowTheRulesOfNumbers) {
  const Tree tree = Tree::list({Tree::map({{"x", 1}}), Tree::map({{"x", 2.5}})});

  EXPECT_EQ((tree.as<std::vector<std::map<std::string, double>>>()[0].at("x")), 1.0);
  EXPECT_THAT([&] { static_cast<void>((tree.as<std::vector<std::map<std::string, int>>>())); },
              Fails(Errc::unsafe_cast, HasSubstr("'1/x' is 2.5")));
  EXPECT_EQ((tree.as<std::vector<std::map<std::string, int>>>({}, Narrowing::allowed)[1].at("x")), 2);
}

TEST(ToTree, TakesContainersOfDescribedStructs) {
  const std::vector<Layer> layers = {{{1, 2}}, {{3}}};
  const std::map<std::string, Layer> named = {{"a", {{4}}}};
  std::vector<Layer> again;
  std::map<std::string, Layer> named_again;

  from_tree(to_tree(layers), again);
  from_tree(to_tree(named), named_again);

  EXPECT_EQ(again, layers);
  EXPECT_EQ(named_again, named);
}

TEST(FromTree, NarrowsWhereThatIsAllowed) {
  std::map<std::string, std::int8_t> counts;
  const Tree tree = {{"a", 1.5}, {"b", 1000}};

  EXPECT_THAT([&] { from_tree(tree, counts); }, Fails(Errc::unsafe_cast, HasSubstr("'a' is 1.5")));
  from_tree(tree, counts, Narrowing::allowed);

  EXPECT_EQ(counts, (std::map<std::string, std::int8_t>{{"a", 1}, {"b", 127}}));
}

}  // namespace
}  // namespace cairn
