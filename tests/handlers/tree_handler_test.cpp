// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/tree_handler.hpp"

#include <initializer_list>
#include <limits>
#include <numeric>
#include <set>
#include <span>

#include "cairn/array/array_view.hpp"

#include "core/internal/start.hpp"
#include "handlers/store.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_text;

class TreeHandlerTest : public testing::StoreTest {
 protected:
  Tree load_tree(const TreeLoadOptions& options = {}) { return load<Tree>("item", options); }
  Tree load_tree(AbstractTree wanted, const TreeLoadOptions& options = {}) {
    return load<Tree>({"item", std::move(wanted)}, options);
  }

  static SaveOptions with(ArrayOptions arrays) {
    SaveOptions options;
    options.handler_options.set(arrays);
    return options;
  }
};

using TreeHandlerSave = TreeHandlerTest;
using TreeHandlerLoad = TreeHandlerTest;
using TreeHandlerCast = TreeHandlerTest;

std::vector<float> counting(std::size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 0.F);
  return values;
}

TEST_F(TreeHandlerSave, KeepsEveryKindOfLeaf) {
  const Tree tree = {{"array", counting(1000)},
                     {"integer", -5},
                     {"unsigned", std::numeric_limits<std::uint64_t>::max()},
                     {"floating", -0.0},
                     {"boolean", true},
                     {"string", "déjà vu"},
                     {"bytes", Bytes(5, std::byte{0xff})},
                     {"null", nullptr},
                     {"list", {1, {{"x", 2}}, Tree::list()}},
                     {"empty", Tree::map()}};

  save(tree);

  EXPECT_EQ(load_tree(), tree);
}

TEST_F(TreeHandlerSave, KeepsARootThatIsNoMap) {
  save(Tree::list({1, 2}));
  EXPECT_EQ(load_tree(), Tree::list({1, 2}));
}

TEST_F(TreeHandlerSave, KeepsEmptyRoots) {
  save(Tree::map());
  EXPECT_EQ(load_tree(), Tree::map());
}

TEST_F(TreeHandlerSave, KeepsNamesThatAreNoFileNames) {
  Tree tree;
  for (const char* key :
       {"a/b", "~", "~0", "", "..", "__metadata__", "\n\"\\", "\xc3\xa9", "e\xcc\x81", "1"}) {
    tree[key]["w"] = counting(3);
    tree[key]["n"] = 1;
  }
  tree["__metadata__"] = counting(2);

  save(tree);

  EXPECT_EQ(load_tree(), tree);
}

TEST_F(TreeHandlerSave, KeepsArraysWithoutElementsAndWithoutDimensions) {
  const Tree tree = {{"none", Array::zeros({0}, DType::float32)},
                     {"some", Array::zeros({3, 0, 2}, DType::int8)},
                     {"scalar", Array::zeros({}, DType::float64)}};

  save(tree);

  EXPECT_EQ(load_tree(), tree);
}

TEST_F(TreeHandlerSave, KeepsPlainStridedEmptyAndCastArraysSideBySide) {
  const std::vector<float> floats = {1, 2, 3};
  const std::vector<double> doubles = {1, 2, 3};
  const std::vector<std::int16_t> numbers = {1, 2, 3, 4, 5, 6};
  const ArrayView strided = ArrayView(numbers.data(), {2, 3}, DType::int16).transposed();
  const Tree tree = {{"cast", Array::copy_of(floats)},
                     {"empty", Array::zeros({0}, DType::int8)},
                     {"plain", Array::copy_of(numbers)},
                     {"plain too", Array::copy_of(numbers)},
                     {"strided", Array::share(strided, std::make_shared<int>())}};
  const Tree expected = {{"cast", doubles},
                         {"empty", tree["empty"]},
                         {"plain", numbers},
                         {"plain too", numbers},
                         {"strided", Array::copy_of(strided)}};
  ArrayOptions arrays;
  arrays.storage_dtype = DType::float64;
  SaveOptions options = with(arrays);
  options.overwrite = true;

  for (const Snapshot snapshot : {Snapshot::copy, Snapshot::borrow, Snapshot::share}) {
    options.snapshot = snapshot;
    save(tree, options);
    EXPECT_EQ(load_tree(), expected) << static_cast<int>(snapshot);
  }
}

TEST_F(TreeHandlerSave, StoresStridedArraysInRowMajorOrder) {
  const auto values = counting(2000);
  const ArrayView transposed = ArrayView(values.data(), {50, 40}, DType::float32).transposed();

  save(Tree({{"t", transposed}}));

  EXPECT_EQ(load_tree()["t"].as<Array>(), Array::copy_of(transposed));
}

TEST_F(TreeHandlerSave, KeepsWhatItSawWhenTheCallerChangesItLater) {
  auto values = counting(100'000);
  Tree tree = {{"w", values}, {"step", 1}};

  auto saving = start(tree);
  values.assign(values.size(), -1.F);
  tree["step"] = 2;
  saving.wait();

  EXPECT_EQ(load_tree(), Tree({{"w", counting(100'000)}, {"step", 1}}));
}

TEST_F(TreeHandlerSave, SharesArraysThatOwnTheirMemory) {
  SaveOptions options;
  options.snapshot = Snapshot::share;
  Tree tree = {{"w", counting(100'000)}};
  const Tree dropped = tree;

  auto saving = start(dropped, options);
  tree = Tree();
  saving.wait();

  EXPECT_THAT(load_tree()["w"].as<std::vector<float>>(), ::testing::ContainerEq(counting(100'000)));
}

TEST_F(TreeHandlerSave, RefusesToShareWhatHasNoOwner) {
  SaveOptions options;
  options.snapshot = Snapshot::share;
  const auto values = counting(3);
  const Tree tree = {{"a", {{"w", values}}}};

  EXPECT_THAT([&] { save(tree, options); }, Fails(Errc::invalid_argument, HasSubstr("'a/w'")));
}

TEST_F(TreeHandlerSave, RefusesATreeThatIsTooDeep) {
  Tree tree = 1;
  for (int i = 0; i < 10'000; ++i) {
    Tree::Map parent;
    parent.emplace("k", std::move(tree));
    tree = Tree::map(std::move(parent));
  }

  EXPECT_THAT([&] { save(tree); }, Fails(Errc::invalid_argument, HasSubstr("deeper than 1000")));
}

TEST_F(TreeHandlerSave, RefusesStringsThatAreNotUtf8) {
  EXPECT_THAT([&] { save(Tree({{"s", "\xff"}})); }, Fails(Errc::invalid_argument, HasSubstr("'s'")));
}

TEST_F(TreeHandlerSave, RefusesKeysThatAreNotUtf8) {
  EXPECT_THAT([&] { save(Tree({{"\xff", 1}})); }, Fails(Errc::invalid_argument));
}

TEST_F(TreeHandlerLoad, GivesAListAsLongAsItIsWanted) {
  save(Tree({{"l", {1, 2, 3}}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["l"].as_list().pop_back();
  TreeLoadOptions options;
  options.partial = true;

  EXPECT_EQ(load<Tree>({"item", wanted}, options), (Tree{{"l", {1, 2}}}));
}

TEST_F(TreeHandlerLoad, ListsMissingAndUnexpectedPaths) {
  save(Tree({{"a", {{"b", 1}, {"c", 2}}}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["a"].as_map().erase("c");
  wanted["a"]["d"] = TreeKind::integer;

  EXPECT_THAT([&] { load_tree(wanted); },
              Fails(Errc::structure_mismatch, AllOf(HasSubstr("1 wanted but not stored: 'a/d'"),
                                                    HasSubstr("1 stored but not wanted: 'a/c'"))));
}

TEST_F(TreeHandlerLoad, ListsNotMoreThanTwentyPaths) {
  Tree tree;
  for (int i = 0; i < 50; ++i) {
    tree["k" + std::to_string(i)] = i;
  }
  save(tree);

  EXPECT_THAT(
      [&] { load_tree(TreeKind::map); },
      Fails(Errc::structure_mismatch, AllOf(HasSubstr("50 stored but not wanted"), HasSubstr("and 30 more"),
                                            Not(HasSubstr("wanted but not stored")))));
}

TEST_F(TreeHandlerLoad, LeavesOutWhatIsNotAskedForWhenPartial) {
  save(Tree({{"a", {{"b", 1}, {"c", 2}}}, {"d", counting(10)}}));
  AbstractTree wanted;
  wanted["a"]["c"] = TreeKind::integer;
  TreeLoadOptions options;
  options.partial = true;

  EXPECT_EQ(load_tree(wanted, options), Tree({{"a", {{"c", 2}}}}));
}

TEST_F(TreeHandlerLoad, MissesKeysEvenWhenPartial) {
  save(Tree({{"a", 1}}));
  AbstractTree wanted;
  wanted["b"] = TreeKind::integer;
  TreeLoadOptions options;
  options.partial = true;

  EXPECT_THAT([&] { load_tree(wanted, options); }, Fails(Errc::structure_mismatch, HasSubstr("'b'")));
}

TEST_F(TreeHandlerLoad, SkipsPlaceholders) {
  save(Tree(
      {{"params", {{"w", counting(4)}}}, {"optimizer", {{"m", counting(4)}, {"v", {1, 2}}}}, {"l", {1, 2}}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["optimizer"] = placeholder;
  wanted["l"][0] = placeholder;

  EXPECT_EQ(load_tree(wanted), Tree({{"params", {{"w", counting(4)}}}, {"l", {nullptr, 2}}}));
}

TEST_F(TreeHandlerLoad, LeavesEverythingWhenAPlaceholderIsTheRoot) {
  save(Tree({{"a", 1}, {"w", counting(4)}}));

  EXPECT_EQ(load_tree(AbstractTree(placeholder)).size(), 0U);
}

TEST_F(TreeHandlerLoad, MissesPlaceholdersThatStandForNothing) {
  save(Tree({{"a", 1}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["b"] = placeholder;

  EXPECT_THAT([&] { load_tree(wanted); }, Fails(Errc::structure_mismatch, HasSubstr("'b'")));
}

TEST_F(TreeHandlerLoad, PlacesElementsIntoMemoryOfTheCaller) {
  save(Tree({{"w", counting(5000)}}));
  std::vector<float> memory(5000);
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].place_into(memory);

  const Tree tree = load_tree(wanted);

  EXPECT_EQ(memory, counting(5000));
  EXPECT_EQ(tree["w"].as<std::span<const float>>().data(), memory.data());
}

TEST_F(TreeHandlerLoad, PlacesElementsIntoStridedMemory) {
  const auto values = counting(6);
  save(Tree({{"w", ArrayView(values.data(), {2, 3}, DType::float32)}}));
  std::vector<float> memory(6);
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].place_into(MutableArrayView(memory.data(), {3, 2}, DType::float32).transposed());

  load_tree(wanted);

  EXPECT_THAT(memory, ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST_F(TreeHandlerLoad, RefusesLeavesThatWouldBeLoadedOverEachOther) {
  save(Tree({{"a", counting(4)}, {"b", counting(4)}, {"c", counting(4)}}));
  std::filesystem::remove(item("data-r00000-000.safetensors"));  // It is refused before anything is read.
  std::vector<float> memory(7, -1);
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["a"].place_into(MutableArrayView(memory.data(), {4}, DType::float32));
  wanted["c"].place_into(MutableArrayView(memory.data() + 3, {4}, DType::float32));

  EXPECT_THAT([&] { load_tree(wanted); },
              Fails(Errc::invalid_argument, HasSubstr("the destinations of 'a' and 'c' overlap")));
  EXPECT_THAT(memory, Each(-1));
}

TEST_F(TreeHandlerLoad, LoadsIntoPartsOfOneArrayThatInterleave) {
  save(Tree({{"even", counting(4)}, {"odd", counting(4)}}));
  std::vector<float> memory(8);
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["even"].place_into(MutableArrayView(memory.data(), {4}, DType::float32, {8}));
  wanted["odd"].place_into(MutableArrayView(memory.data() + 1, {4}, DType::float32, {8}));

  load_tree(wanted);

  EXPECT_THAT(memory, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

TEST_F(TreeHandlerLoad, RefusesMemoryWhoseElementsHaveOnePlace) {
  save(Tree({{"w", counting(4)}}));
  std::vector<float> memory(4);
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].place_into(MutableArrayView(memory.data(), {4}, DType::float32, {0}));

  EXPECT_THAT(
      [&] { load_tree(wanted); },
      Fails(Errc::invalid_argument, HasSubstr("'w': destination elements alias each other: strides [0]")));
}

TEST_F(TreeHandlerLoad, RefusesMemoryThatNoLongerFits) {
  save(Tree({{"w", counting(4)}}));
  std::vector<float> memory(3);
  AbstractTree longer = metadata<AbstractTree>();
  longer["w"].as_array().shape = {3};
  longer["w"].place_into(memory);
  longer["w"].as_array().shape = {4};
  AbstractTree wider = metadata<AbstractTree>();
  memory.resize(4);
  wider["w"].place_into(memory);
  wider.set_dtype(DType::float64);

  EXPECT_THAT(
      [&] { load_tree(longer); },
      Fails(Errc::shape_mismatch, HasSubstr("'w': wanted with shape [4], but its memory has shape [3]")));
  EXPECT_THAT([&] { load_tree(wider); },
              Fails(Errc::dtype_mismatch, HasSubstr("'w': wanted as F64, but its memory is of F32")));
}

TEST_F(TreeHandlerLoad, GivesOneMemoryOnlyToSmallArraysThatLieSideBySide) {
  constexpr std::size_t kSmall = 12'000;  // Floats: 48 KB.
  Tree tree = {{"large", counting(300'000)}};
  for (const char* name : {"a", "b", "c", "d"}) {
    tree[name] = counting(kSmall);
  }
  save(tree);
  const auto owners = [&](std::initializer_list<const char*> names) {
    AbstractTree wanted;
    for (const char* name : names) {
      wanted[name] = AbstractArray({kSmall}, DType::float32);
    }
    TreeLoadOptions options;
    options.partial = true;
    const Tree loaded = load_tree(wanted, options);
    std::set<const void*> found;
    for (const char* name : names) {
      EXPECT_EQ(loaded.get<std::vector<float>>(name), counting(kSmall));
      found.insert(loaded.at(name).as<Array>().owner().get());
    }
    return found.size();
  };

  EXPECT_EQ(owners({"a", "b", "c", "d"}), 1U);
  EXPECT_EQ(owners({"a", "b"}), 2U);       // Too short a run to be worth memory of its own.
  EXPECT_EQ(owners({"a", "c", "d"}), 3U);  // "a" lies apart, and what is left is short.
}

TEST_F(TreeHandlerLoad, RefusesAnotherShape) {
  save(Tree({{"w", counting(4)}}));
  AbstractTree wanted;
  wanted["w"] = AbstractArray({5}, DType::float32);

  EXPECT_THAT([&] { load_tree(wanted); },
              Fails(Errc::shape_mismatch, HasSubstr("'w': stored shape [4], wanted [5]")));
}

TEST_F(TreeHandlerLoad, RefusesAnotherKind) {
  save(Tree({{"w", counting(4)}}));
  AbstractTree wanted;
  wanted["w"] = TreeKind::integer;

  EXPECT_THAT([&] { load_tree(wanted); }, Fails(Errc::type_mismatch, HasSubstr("'w'")));
}

TEST_F(TreeHandlerLoad, DescribesItselfWithoutArrayData) {
  save(Tree({{"w", counting(4)}, {"n", 3}}));
  std::filesystem::remove(item("data-r00000-000.safetensors"));

  AbstractTree described = metadata<AbstractTree>();

  EXPECT_EQ(described["w"].as_array().shape, Shape({4}));
  EXPECT_EQ(described["n"].stored_value().as<int>(), 3);
}

TEST_F(TreeHandlerLoad, NamesTheDataFileThatIsMissing) {
  save(Tree({{"w", counting(4)}}));
  std::filesystem::remove(item("data-r00000-000.safetensors"));

  EXPECT_THAT([&] { load_tree(); }, Fails(Errc::not_found, HasSubstr("data-r00000-000.safetensors")));
}

using TreeHandlerMap = TreeHandlerTest;

TreeLoadOptions mapped() {
  TreeLoadOptions options;
  options.map = true;
  return options;
}

TEST_F(TreeHandlerMap, HasTheSameValues) {
  const Tree tree = {
      {"large", counting(100'000)}, {"small", counting(3)}, {"none", counting(0)}, {"step", 7}};
  save(tree);

  EXPECT_EQ(load_tree(mapped()), tree);
}

TEST_F(TreeHandlerMap, ReadsNothingOfWhatNobodyLooksAt) {
  save(Tree{{"w", counting(100'000)}});
  LoadOptions options;
  options.handler_options.set(mapped());

  const auto response = core::start_load(path(), {"item"}, handlers_, options, context_);
  static_cast<void>(response.wait());

  EXPECT_LT(response.result().bytes, 4096U);  // The index.
}

TEST_F(TreeHandlerMap, LastsLongerThanItsCheckpoint) {
  save(Tree{{"w", counting(100'000)}});
  const Tree tree = load_tree(mapped());

  std::filesystem::remove_all(path());

  EXPECT_EQ(tree, (Tree{{"w", counting(100'000)}}));
}

TEST_F(TreeHandlerMap, MayNotBeWrittenTo) {
  save(Tree{{"w", counting(10)}});
  const Tree tree = load_tree(mapped());

  EXPECT_THAT([&] { static_cast<void>(tree.at("w").as<Array>().mutable_view()); },
              Fails(Errc::invalid_argument));
}

TEST_F(TreeHandlerMap, LoadsWhatIsCast) {
  save(Tree{{"w", counting(1000)}, {"v", counting(10)}});
  AbstractTree wanted = metadata<AbstractTree>();
  wanted.at("w").as_array().dtype = DType::float64;

  const Tree tree = load_tree(std::move(wanted), mapped());

  const Array cast = tree.at("w").as<Array>();
  const Array plain = tree.at("v").as<Array>();
  EXPECT_EQ(cast.data<const double>()[999], 999.0);
  EXPECT_EQ(plain.data<const float>()[9], 9.0F);
}

TEST_F(TreeHandlerMap, NamesAFileThatWasCutShort) {
  save(Tree{{"w", counting(100'000)}});
  std::filesystem::resize_file(item("data-r00000-000.safetensors"), 4096);

  EXPECT_THAT([&] { load_tree(mapped()); }, Fails(Errc::checksum_mismatch, HasSubstr("data-r00000-000")));
}

TEST_F(TreeHandlerCast, WidensWithoutBeingAsked) {
  save(Tree({{"w", counting(1000)}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].as_array().dtype = DType::float64;

  EXPECT_EQ(load_tree(wanted)["w"].as<std::vector<double>>()[999], 999.0);
}

TEST_F(TreeHandlerCast, NarrowsWhenTheDtypeIsAskedFor) {
  save(Tree({{"params", {{"w", std::vector<float>{1.5F, -2}}}}, {"step", 1}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["params"].set_dtype(DType::bfloat16);

  const auto values = load_tree(wanted).get<std::vector<BFloat16>>("params/w");

  EXPECT_THAT(values, ElementsAre(BFloat16{0x3fc0}, BFloat16{0xc000}));
}

TEST_F(TreeHandlerCast, RefusesToNarrowUnasked) {
  save(Tree({{"w", counting(4)}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].as_array().dtype = DType::float16;

  EXPECT_THAT([&] { load_tree(wanted); }, Fails(Errc::unsafe_cast, HasSubstr("'w'")));
}

TEST_F(TreeHandlerCast, NarrowsEverythingWhenTheOptionsSaySo) {
  save(Tree({{"w", counting(4)}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].as_array().dtype = DType::int8;
  TreeLoadOptions options;
  options.allow_narrowing = true;

  EXPECT_THAT(load_tree(wanted, options).get<std::vector<std::int8_t>>("w"), ElementsAre(0, 1, 2, 3));
}

TEST_F(TreeHandlerCast, StoresAnotherDtypeThanMemoryHolds) {
  save(Tree({{"w", counting(100'001)}, {"n", std::vector<int>{1}}}), with(ArrayOptions(DType::float64)));

  const Tree tree = load_tree();

  EXPECT_EQ(tree.get<std::vector<double>>("w")[100'000], 100'000.0);
  EXPECT_EQ(tree["n"].as<Array>().dtype(), DType::int32);
}

TEST_F(TreeHandlerCast, RefusesAStorageDtypeThatLosesValues) {
  EXPECT_THAT(
      [&] {
        save(Tree({{"w", counting(4)}}), with(ArrayOptions(DType::bfloat16)));
      },
      Fails(Errc::unsafe_cast, HasSubstr("'w'")));
}

}  // namespace
}  // namespace cairn
