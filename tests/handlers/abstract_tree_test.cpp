// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/abstract_tree.hpp"

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>

#include "formats/internal/index_builder.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

const std::vector<std::uint64_t> kDims = {2, 3};

formats::Index open(formats::IndexBuilder& builder) {
  formats::IndexBytes built = builder.finish();
  return formats::Index::open(std::move(built.owner), built.bytes, "index.fb");
}

/// {"a": {"w": float32 [2, 3], "n": int64 [2, 3]}, "layers": [float32 [2, 3], 7], "none": {}}
AbstractTree stored() {
  formats::IndexBuilder builder;
  const auto file = builder.add_file("data.safetensors");
  builder.add_array("a/n", DType::int64, kDims);
  builder.add_whole(file, 4096);
  builder.add_array("a/w", DType::float32, kDims);
  builder.add_whole(file, 8192);
  builder.add_list("layers", 2);
  builder.add_array("layers/0", DType::float32, kDims);
  builder.add_whole(file, 12288);
  builder.add_integer("layers/1", 7);
  builder.add_empty_map("none");
  return AbstractTree(open(builder));
}

std::vector<std::string> values(const AbstractTree& tree) {
  std::vector<std::string> found;
  for (const DescribedValue& value : tree.values()) {
    const auto* number = std::get_if<std::int64_t>(&value.value);
    found.push_back(value.name + ":" + value.kind + (number != nullptr ? std::to_string(*number) : ""));
  }
  return found;
}

// What a temporary tree has, it gives away: nothing refers to what is gone.
using Temporary = AbstractTree;
static_assert(
    std::is_same_v<decltype(std::declval<const AbstractTree&>().at("w").as_array()), AbstractArray>);
static_assert(std::is_same_v<decltype(std::declval<Temporary>()["w"].as_array()), AbstractArray>);
static_assert(
    std::is_same_v<decltype(std::declval<Temporary>()[1].as_sharded_array()), AbstractShardedArray>);
static_assert(std::is_same_v<decltype(std::declval<Temporary>().at("w")), AbstractTree>);
static_assert(std::is_same_v<decltype(std::declval<Temporary>().as_map()), AbstractTree::Map>);
static_assert(std::is_same_v<decltype(std::declval<Temporary>().as_list()), AbstractTree::List>);
static_assert(std::is_same_v<decltype(std::declval<Temporary>().stored_value()), Tree>);

std::vector<std::string> names(const AbstractTree& tree) {
  std::vector<std::string> found;
  for (const ArrayEntry& array : tree.arrays()) {
    found.emplace_back(array.name);
  }
  return found;
}

TEST(AbstractTreeView, ListsArraysWithoutBuildingTheTree) {
  const AbstractTree tree = stored();

  EXPECT_THAT(names(tree), ElementsAre("a/n", "a/w", "layers/0"));
  EXPECT_EQ(tree.arrays().size(), 3U);
  EXPECT_TRUE(tree.is_view());
}

TEST(AbstractTreeView, TellsValuesWithoutBuildingTheTree) {
  const AbstractTree tree = stored();

  EXPECT_THAT(values(tree), ElementsAre("layers:list", "layers/1:integer7", "none:map"));
  EXPECT_TRUE(tree.is_view());
}

TEST(AbstractTree, TellsTheSameValuesOnceItIsBuilt) {
  AbstractTree tree = stored();

  tree.materialise();

  EXPECT_EQ(values(tree), values(stored()));
}

TEST(AbstractTree, HoldsValuesOfAllKinds) {
  const Tree tree = {{"a", true},   {"b", -1},      {"c", ~std::uint64_t{0}},     {"d", 0.5},
                     {"e", "text"}, {"f", nullptr}, {"g", Bytes(2, std::byte{1})}};
  using Value = decltype(DescribedValue::value);
  std::vector<Value> found;

  for (const DescribedValue& value : AbstractTree(tree).values()) {
    found.push_back(value.value);
  }

  EXPECT_EQ(found, (std::vector<Value>{true, std::int64_t{-1}, ~std::uint64_t{0}, 0.5, "text",
                                       std::monostate(), Bytes(2, std::byte{1})}));
}

TEST(AbstractTreeView, TellsDtypeShapeAndBytes) {
  const ArrayEntry array = *stored().arrays().begin();

  EXPECT_EQ(array.dtype, DType::int64);
  EXPECT_EQ(array.shape, Shape({2, 3}));
  EXPECT_EQ(array.bytes, 48U);
}

TEST(AbstractTreeView, TellsEachArrayFromItsNeighbours) {
  formats::IndexBuilder builder;
  const auto add = [&builder](std::string_view name, DType dtype, std::vector<std::uint64_t> dims) {
    builder.add_array(name, dtype, dims);
  };
  add("a", DType::float32, {2, 3});
  add("b", DType::float32, {2, 3});
  add("c", DType::float64, {2, 3});
  add("d", DType::float64, {2, 3, 1});
  add("e", DType::float64, {3, 3});
  add("f", DType::float64, {});
  const AbstractTree tree(open(builder));
  std::vector<std::string> seen;

  for (const ArrayEntry& array : tree.arrays()) {
    seen.push_back(std::string(array.name) + ' ' + std::string(name(array.dtype)) + ' ' +
                   to_string(array.shape) + ' ' + std::to_string(array.bytes));
  }

  EXPECT_THAT(seen, ElementsAre("a F32 [2, 3] 24", "b F32 [2, 3] 24", "c F64 [2, 3] 48", "d F64 [2, 3, 1] 48",
                                "e F64 [3, 3] 72", "f F64 [] 8"));
}

TEST(AbstractTreeView, BecomesATreeWhenItIsChanged) {
  AbstractTree tree = stored();
  tree["none"] = placeholder;

  EXPECT_FALSE(tree.is_view());
  EXPECT_THAT(names(tree), ElementsAre("a/n", "a/w", "layers/0"));
}

TEST(AbstractTreeView, ShowsPartsToConstAccess) {
  const AbstractTree tree = stored();

  EXPECT_EQ(tree.at("layers/1").stored_value().as<int>(), 7);
  EXPECT_EQ(tree.at("layers").kind(), TreeKind::list);
  EXPECT_EQ(tree.at("none").kind(), TreeKind::map);
  EXPECT_THAT(names(tree.at("a")), ElementsAre("n", "w"));
  EXPECT_TRUE(tree.is_view());
}

TEST(AbstractTreeView, GivesAwayWhatAPartHas) {
  const AbstractTree tree = stored();

  const AbstractArray& w = tree.at("a/w").as_array();
  const Tree& number = tree.at("layers/1").stored_value();

  EXPECT_EQ(w.dtype, DType::float32);
  EXPECT_EQ(number, Tree(7));
}

TEST(AbstractTreeView, NamesAMissingPath) {
  EXPECT_THAT([] { static_cast<void>(std::as_const(*std::make_unique<AbstractTree>(stored())).at("a/x")); },
              Fails(Errc::not_found, HasSubstr("'a/x'")));
}

TEST(AbstractTreeView, EqualsTheTreeThatItStandsFor) {
  AbstractTree built = stored();
  built.materialise();

  EXPECT_EQ(built, stored());
}

TEST(AbstractTreeView, RefusesAListWithHoles) {
  formats::IndexBuilder builder;
  builder.add_list("l", 2);
  builder.add_integer("l/1", 1);
  AbstractTree tree(open(builder));

  EXPECT_THAT([&] { tree.materialise(); }, Fails(Errc::malformed_metadata, HasSubstr("'l'")));
}

TEST(AbstractTreeView, RefusesAListLongerThanTheIndex) {
  formats::IndexBuilder builder;
  builder.add_list("l", std::uint64_t{1} << 60);
  AbstractTree tree(open(builder));

  EXPECT_THAT([&] { tree.materialise(); }, Fails(Errc::malformed_metadata, HasSubstr("'l'")));
}

TEST(AbstractTreeView, RefusesElementsThatAreNoNumbers) {
  formats::IndexBuilder builder;
  builder.add_list("l", 1);
  builder.add_integer("l/01", 1);
  AbstractTree tree(open(builder));

  EXPECT_THAT([&] { tree.materialise(); }, Fails(Errc::malformed_metadata, HasSubstr("'01'")));
}

TEST(AbstractTreeView, RefusesADepthOfTenThousand) {
  formats::IndexBuilder builder;
  std::string path = "a";
  for (int i = 0; i < 10'000; ++i) {
    path += "/a";
  }
  builder.add_integer(path, 1);
  AbstractTree tree(open(builder));

  EXPECT_THAT([&] { tree.materialise(); }, Fails(Errc::malformed_metadata, HasSubstr("deeper than 1000")));
}

TEST(AbstractTreeSetDtype, ReachesEveryFloatingArrayBelow) {
  AbstractTree tree = stored();
  tree.set_dtype(DType::bfloat16);

  EXPECT_EQ(tree.at("a/w").as_array().dtype, DType::bfloat16);
  EXPECT_EQ(tree.at("layers/0").as_array().dtype, DType::bfloat16);
  EXPECT_EQ(tree.at("a/n").as_array().dtype, DType::int64);
}

TEST(AbstractTreeSetDtype, MakesComplexOfTheSameParts) {
  const auto of_complex = [](DType stored, DType wanted) {
    AbstractTree tree;
    tree["z"] = AbstractArray({2}, stored);
    tree.set_dtype(wanted);
    return tree.at("z").as_array().dtype;
  };

  EXPECT_EQ(of_complex(DType::complex64, DType::float64), DType::complex128);
  EXPECT_EQ(of_complex(DType::complex128, DType::float32), DType::complex64);
  EXPECT_EQ(of_complex(DType::complex64, DType::bfloat16), DType::complex64);
  EXPECT_EQ(of_complex(DType::complex64, DType::int32), DType::int32);
}

TEST(AbstractTreeSetDtype, LeavesOtherBranchesAlone) {
  AbstractTree tree = stored();
  tree["a"].set_dtype(DType::float64);

  EXPECT_EQ(tree.at("layers/0").as_array().dtype, DType::float32);
}

TEST(AbstractTreePlaceInto, RefusesWhatIsNoArray) {
  AbstractTree tree = stored();
  std::vector<float> memory(6);

  EXPECT_THAT([&] { tree["none"].place_into(memory); }, Fails(Errc::type_mismatch, HasSubstr("array")));
}

TEST(AbstractTreePlaceInto, RefusesAnotherShape) {
  AbstractTree tree = stored();
  std::vector<float> memory(6);

  EXPECT_THAT([&] { tree["a"]["w"].place_into(memory); }, Fails(Errc::shape_mismatch));
}

TEST(AbstractTree, DescribesATree) {
  const Tree tree = {{"w", std::vector<float>{1, 2}}, {"step", 5}, {"l", {nullptr}}};
  AbstractTree abstract(tree);

  EXPECT_EQ(abstract.at("w").as_array().shape, Shape({2}));
  EXPECT_EQ(abstract.at("step").stored_value().as<int>(), 5);
  EXPECT_EQ(abstract["l"][0].kind(), TreeKind::null);
}

TEST(AbstractTree, MayHoldAViewAsABranch) {
  AbstractTree tree;
  tree["old"] = stored();

  EXPECT_THAT(names(tree), ElementsAre("old/a/n", "old/a/w", "old/layers/0"));
  EXPECT_EQ(tree.at("old/layers/1").stored_value().as<int>(), 7);
}

}  // namespace
}  // namespace cairn
