// SPDX-License-Identifier: Apache-2.0
// Trees in which an array has several names, as the tied weights of a model have.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/describe/class.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/array/sharded_array.hpp"
#include "cairn/array/stored_slices.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/describe.hpp"
#include "cairn/handlers/into.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "formats/internal/index.hpp"
#include "formats/internal/safetensors.hpp"
#include "formats/without_aliases.hpp"
#include "handlers/store.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Floats = std::vector<float>;

struct TiedModel {
  Floats embed;
  Floats head;
};
BOOST_DESCRIBE_STRUCT(TiedModel, (), (embed, head))

/// A model that knows its head only.
struct HeadOfModel {
  Floats head;
};
BOOST_DESCRIBE_STRUCT(HeadOfModel, (), (head))

/// A model whose parts are structs, in a list.
struct TiedLayer {
  Floats weight;
  int number = 0;
};
BOOST_DESCRIBE_STRUCT(TiedLayer, (), (weight, number))

struct TiedLayers {
  std::vector<TiedLayer> layers;
  TiedLayer embed;
};
BOOST_DESCRIBE_STRUCT(TiedLayers, (), (layers, embed))

/// Of a 3 × 2 array.
MutableArrayView matrix(Floats& memory, std::size_t first = 0) {
  return {memory.data() + first, {3, 2}, DType::float32};
}

class Aliases : public testing::StoreTest {
 protected:
  static SaveOptions again() {
    SaveOptions options;
    options.overwrite = true;
    return options;
  }

  /// A model whose head is its embedding, in `memory`.
  static Tree tied(Floats& memory) {
    return {{"body", Array::zeros({2}, DType::float32)},
            {"embed", Array::borrow(matrix(memory))},
            {"head", Array::borrow(matrix(memory))}};
  }

  std::vector<std::string> aliases() {
    std::vector<std::string> names;
    const Description description = item_metadata().description();
    for (const ArrayEntry& array : description.arrays) {
      if (!array.alias_of.empty()) {
        names.push_back(std::string(array.name) + " of " + std::string(array.alias_of));
      }
    }
    return names;
  }

  std::vector<std::string> tensors(std::string_view file = "data-r00000-000.safetensors") {
    const std::string text = testing::read_text(item(file));
    std::vector<std::string> names;
    for (const auto& tensor :
         formats::parse_safetensors(std::as_bytes(std::span(text)), text.size(), "the file").tensors) {
      names.push_back(tensor.name);
    }
    return names;
  }

  /// What a program reads that knows no aliases: in a folder, where nothing vouches for the index.
  Tree load_as_older(const Request& request = "state") {
    const std::filesystem::path folder = folder_ / "older";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    for (const auto& file : std::filesystem::directory_iterator(item(""))) {
      const std::string text = testing::read_text(file.path());
      const bool is_index = file.path().filename() == "index.fb";
      testing::write_text(folder / file.path().filename(),
                          is_index ? testing::without_aliases(std::as_bytes(std::span(text))) : text);
    }
    return load_from<Tree>(folder, request);
  }

  template <class T>
  void load_into(T& object, const TreeLoadOptions& options = {}) {
    static_cast<void>(load<Tree>({"item", into(object)}, options));
  }

  static TreeLoadOptions also_called(std::map<std::string, std::string> names) {
    TreeLoadOptions options;
    options.aliases = std::move(names);
    return options;
  }

  Floats memory_ = {1, 2, 3, 4, 5, 6};
};

TEST_F(Aliases, AreSavedOnceUnderTheFirstName) {
  const SaveResult result = start(tied(memory_)).wait();

  EXPECT_THAT(tensors(), ElementsAre("body", "embed"));
  EXPECT_THAT(aliases(), ElementsAre("head of embed"));
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(load<Tree>(), tied(memory_));
}

TEST_F(Aliases, AreLoadedIntoTheModelThatSavedThem) {
  save(tied(memory_));
  Floats mine(6);
  Tree model = tied(mine);

  load_into(model);

  EXPECT_EQ(mine, memory_);
  EXPECT_EQ(model.at("head").as<Array>().view().data(), reinterpret_cast<const std::byte*>(mine.data()));
}

TEST_F(Aliases, AreLoadedIntoMemoriesOfTheirOwn) {
  save(tied(memory_));
  Floats embed(6);
  std::vector<double> head(6);
  Tree model = {{"body", Array::zeros({2}, DType::float32)},
                {"embed", Array::borrow(matrix(embed))},
                {"head", Array::borrow(MutableArrayView(head.data(), {3, 2}, DType::float64))}};

  load_into(model);

  EXPECT_EQ(embed, memory_);
  EXPECT_EQ(head, (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Aliases, AreLoadedUnderEitherName) {
  save(tied(memory_));
  for (const char* name : {"embed", "head"}) {
    AbstractTree wanted;
    wanted["body"] = as_saved;
    wanted[name] = AbstractArray({3, 2}, DType::float32);

    const Tree loaded = load<Tree>({"item", wanted});

    EXPECT_EQ(loaded.size(), 2u);
    EXPECT_EQ(loaded.at(name).as<Array>(), Array::borrow(matrix(memory_)));
  }
  AbstractTree neither;
  neither["body"] = as_saved;
  EXPECT_THAT(
      [&] {
        static_cast<void>(load<Tree>({"item", neither}));
      },
      Fails(Errc::structure_mismatch, HasSubstr("2 stored but not wanted: 'embed', 'head'")));
}

TEST_F(Aliases, AreOneMemoryWhereNobodyAsksForMore) {
  save(tied(memory_));

  const Tree loaded = load<Tree>();

  EXPECT_EQ(loaded.at("head").as<Array>().view().data(), loaded.at("embed").as<Array>().view().data());
  save(loaded, again());
  EXPECT_THAT(aliases(), ElementsAre("head of embed"));
}

TEST_F(Aliases, FillTheMembersOfStructs) {
  save(Tree{{"embed", memory_}, {"head", memory_}});
  EXPECT_THAT(aliases(), ElementsAre("head of embed"));
  TiedModel model;

  load_into(model);

  EXPECT_EQ(model.embed, memory_);
  EXPECT_EQ(model.head, memory_);
}

TEST_F(Aliases, FillAStructThatHasOneOfTheNames) {
  save(Tree{{"embed", memory_}, {"head", memory_}});
  HeadOfModel model;

  load_into(model);

  EXPECT_EQ(model.head, memory_);
}

TEST_F(Aliases, DoNotExcuseAStructThatHasNoneOfTheNames) {
  save(Tree{{"body", Floats{1}}, {"embed", memory_}, {"other", memory_}});
  HeadOfModel model;
  EXPECT_THAT([&] { load_into(model); },
              Fails(Errc::structure_mismatch, AllOf(HasSubstr("'head'"), HasSubstr("'body'"))));

  save(Tree{{"body", Floats{1}}, {"embed", memory_}, {"head", memory_}}, again());
  EXPECT_THAT([&] { load_into(model); }, Fails(Errc::structure_mismatch, HasSubstr("'body'")));

  save(Tree{{"head", Floats{1}}, {"embed", memory_}, {"other", memory_}}, again());
  EXPECT_THAT([&] { load_into(model); },
              Fails(Errc::structure_mismatch, HasSubstr("2 stored but not wanted: 'embed', 'other'")));
}

TEST_F(Aliases, MayBeMany) {
  Tree tree;
  for (const char* name : {"a", "b", "c", "d"}) {
    tree[name] = Array::borrow(matrix(memory_));
  }
  tree["other"] = Floats{7};
  save(tree);

  EXPECT_THAT(aliases(), ElementsAre("b of a", "c of a", "d of a"));
  EXPECT_EQ(load<Tree>(), tree);
}

TEST_F(Aliases, AreNotWhatDiffersInAnything) {
  Floats memory = memory_;
  const Array array = Array::borrow(matrix(memory));
  const Array flat = Array::borrow(MutableArrayView(memory.data(), {6}, DType::float32));
  const Array turned = Array::borrow(MutableArrayView(memory.data(), {3, 2}, DType::float32, {4, 12}));
  const Array integers = Array::borrow(MutableArrayView(memory.data(), {3, 2}, DType::int32));
  for (const Array& other : {flat, turned, integers}) {
    const Tree tree = {{"a", array}, {"b", other}};
    const SaveResult result = start(tree, again()).wait();

    EXPECT_THAT(aliases(), IsEmpty());
    EXPECT_THAT(result.problems, ElementsAre(AllOf(HasSubstr("'item'"), HasSubstr("'a' and 'b' overlap"))));
    EXPECT_EQ(load<Tree>(), tree);
  }
}

TEST_F(Aliases, AreNotWhatIsStoredAsAnotherType) {
  SaveOptions options;
  options.handler_options.set(ArrayRules().add("head", DType::float64));
  const SaveResult result = start(tied(memory_), options).wait();

  EXPECT_THAT(aliases(), IsEmpty());
  EXPECT_THAT(result.problems, ElementsAre(HasSubstr("'embed' and 'head' overlap")));
  EXPECT_EQ(metadata<AbstractTree>()["head"].as_array().dtype, DType::float64);
}

TEST_F(Aliases, AreNotWhatAnotherPolicyDivides) {
  SaveOptions options;
  options.handler_options.set(ArrayRules().add("head", std::make_shared<AllInOne>()));
  save(tied(memory_), options);

  EXPECT_THAT(aliases(), IsEmpty());
  EXPECT_EQ(load<Tree>(), tied(memory_));
}

TEST_F(Aliases, AreDividedOnceByTheirPolicy) {
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(8)));
  save(tied(memory_), options);

  EXPECT_THAT(aliases(), ElementsAre("head of embed"));
  AbstractTree stored = metadata<AbstractTree>();
  EXPECT_EQ(stored["head"].as_array().stored->size(), 3u);
  EXPECT_EQ(load<Tree>(), tied(memory_));
}

TEST_F(Aliases, AreStoredByTheRulesOfTheirNames) {
  SaveOptions options;
  options.handler_options.set(ArrayRules().add("embed", DType::float64).add("head", DType::float64));
  save(tied(memory_), options);

  EXPECT_THAT(aliases(), ElementsAre("head of embed"));
  EXPECT_EQ(metadata<AbstractTree>()["head"].as_array().dtype, DType::float64);
}

TEST_F(Aliases, AreNotViewsOfSomeRows) {
  const Array whole = Array::borrow(matrix(memory_));
  const Tree tree = {{"embed", whole}, {"first_rows", whole.part(Box({0, 0}, {2, 2}))}};

  const SaveResult result = start(tree).wait();

  EXPECT_THAT(result.problems, ElementsAre(AllOf(HasSubstr("share memory"),
                                                 HasSubstr("a load into that memory will be refused"),
                                                 HasSubstr("'embed' and 'first_rows' overlap"))));
  Tree model = tree;
  EXPECT_THAT([&] { load_into(model); },
              Fails(Errc::invalid_argument, HasSubstr("'embed' and 'first_rows' overlap")));
  EXPECT_EQ(load<Tree>(), tree);
}

TEST_F(Aliases, AreNotColumnsThatLieBetweenEachOther) {
  const Array whole = Array::borrow(matrix(memory_));
  const Tree tree = {{"left", whole.part(Box({0, 0}, {3, 1}))}, {"right", whole.part(Box({0, 1}, {3, 1}))}};

  const SaveResult result = start(tree).wait();

  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(aliases(), IsEmpty());
  Tree model = tree;
  load_into(model);
}

TEST_F(Aliases, AreNotArraysWithoutElements) {
  Floats none(1);
  const Array empty = Array::borrow(MutableArrayView(none.data(), {0, 3}, DType::float32));

  const SaveResult result = start(Tree{{"a", empty}, {"b", empty}}).wait();

  EXPECT_THAT(aliases(), IsEmpty());
  EXPECT_THAT(result.problems, IsEmpty());
}

TEST_F(Aliases, MayBeElementsOfLists) {
  const Array array = Array::borrow(matrix(memory_));
  const Tree tree = {{"layers", Tree::list({array, Tree{{"w", array}}, array})}, {"z", array}};
  save(tree);

  EXPECT_THAT(aliases(), ElementsAre("layers/1/w of layers/0", "layers/2 of layers/0", "z of layers/0"));
  EXPECT_EQ(load<Tree>(), tree);
  EXPECT_EQ(item_metadata().description().values.size(), 1u);  // The list.
  const Tree older = load_as_older();
  EXPECT_EQ(older.at("layers/0").as<Array>(), array);
  EXPECT_TRUE(older.at("layers/1/w").is_null());
  EXPECT_TRUE(older.at("layers/2").is_null());
  EXPECT_EQ(older.find("z"), nullptr);
}

TEST_F(Aliases, AreMissingForOlderPrograms) {
  save(tied(memory_));
  AbstractTree wanted;
  for (const char* name : {"embed", "head"}) {
    wanted[name] = AbstractArray({3, 2}, DType::float32);
  }
  wanted["body"] = as_saved;

  EXPECT_EQ(load_as_older().size(), 2u);
  EXPECT_THAT(
      [&] {
        static_cast<void>(load_as_older({"state", wanted}));
      },
      Fails(Errc::structure_mismatch, HasSubstr("1 wanted but not stored: 'head'")));
}

TEST_F(Aliases, ThatTheCallerNamesServeWhatWasSavedUnderOneName) {
  save(Tree{{"embed", Array::borrow(matrix(memory_))}});
  Floats mine(6);
  Tree both = {{"embed", Array::borrow(matrix(mine))}, {"head", Array::borrow(matrix(mine))}};
  Floats other(6);
  Tree one = {{"head", Array::borrow(matrix(other))}};

  EXPECT_THAT([&] { load_into(both); }, Fails(Errc::structure_mismatch, HasSubstr("'head'")));
  load_into(both, also_called({{"head", "embed"}}));
  load_into(one, also_called({{"head", "embed"}}));

  EXPECT_EQ(mine, memory_);
  EXPECT_EQ(other, memory_);
}

TEST_F(Aliases, ThatTheCallerNamesServeBothWays) {
  save(Tree{{"params", {{"head", Array::borrow(matrix(memory_))}}}});
  AbstractTree wanted;
  for (const char* name : {"embed", "tail"}) {
    wanted[name] = AbstractArray({3, 2}, DType::float64);
  }

  const Tree loaded =
      load<Tree>({"item", wanted}, also_called({{"embed", "tail"}, {"params/head", "embed"}}));

  EXPECT_EQ(loaded.get<std::vector<double>>("tail"), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(loaded.size(), 2u);
  EXPECT_THAT(
      [&] {
        static_cast<void>(load<Tree>({"item", wanted}, also_called({{"embed", "other"}})));
      },
      Fails(Errc::structure_mismatch, AllOf(HasSubstr("'embed', 'tail'"), HasSubstr("'params/head'"))));
}

TEST_F(Aliases, ThatTheCallerNamesDoNotHideWhatIsStored) {
  save(Tree{{"embed", Floats{1}}, {"head", Floats{2}}});

  const Tree loaded = load<Tree>("item", also_called({{"head", "embed"}}));

  EXPECT_EQ(loaded, (Tree{{"embed", Floats{1}}, {"head", Floats{2}}}));
}

TEST_F(Aliases, ThatTheCallerNamesFillStructs) {
  save(Tree{{"embed", memory_}});
  TiedModel model;

  EXPECT_THAT([&] { load_into(model); }, Fails(Errc::structure_mismatch, HasSubstr("'head'")));
  load_into(model, also_called({{"head", "embed"}}));

  EXPECT_EQ(model.head, memory_);
}

TEST_F(Aliases, ThatTheCallerNamesFillAStructThatHasOneOfThem) {
  save(Tree{{"embed", memory_}});
  HeadOfModel model;

  load_into(model, also_called({{"head", "embed"}}));

  EXPECT_EQ(model.head, memory_);
}

TEST_F(Aliases, ThatTheCallerNamesMayLieInLists) {
  save(Tree{{"layers", Tree::list({Tree{{"weight", memory_}, {"number", 1}}, Tree{{"number", 2}}})},
            {"embed", {{"weight", Floats{7}}, {"number", 3}}}});
  const TreeLoadOptions options = also_called({{"layers/1/weight", "layers/0/weight"}});
  TiedLayers model;
  Floats first(6);
  Floats second(6);
  Tree tree = {{"layers", Tree::list({Tree{{"weight", first}, {"number", 0}},
                                      Tree{{"weight", second}, {"number", 0}}})},
               {"embed", nullptr}};

  load_into(model, options);
  load_into(tree, options);

  EXPECT_EQ(model.layers.at(1).weight, memory_);
  EXPECT_EQ(second, memory_);
}

TEST_F(Aliases, ThatTheCallerNamesDoNotHideWhatLiesAboveOrBelow) {
  save(Tree{{"layers", Tree::list({})}, {"embed", {{"weight", memory_}, {"number", 3}}}});
  TiedLayers model;
  load_into(model, also_called({{"embed", "embed/weight"}, {"layers/0", "embed/weight"}}));
  EXPECT_EQ(model.embed.weight, memory_);

  save(Tree{{"embed", memory_}, {"head", Floats{1}}}, again());
  TiedModel flat;
  load_into(flat, also_called({{"embed/weight", "embed"}, {"head/weight", "embed"}}));
  EXPECT_EQ(flat.embed, memory_);
}

TEST_F(Aliases, ThatTheCallerNamesMayHaveAnyKeys) {
  save(Tree{{"a/b~", memory_}});
  Floats mine(6);
  Tree model = {{"~x", mine}};

  load_into(model, also_called({{"~x", "a~1b~0"}}));

  EXPECT_EQ(mine, memory_);
}

TEST_F(Aliases, ThatTheCallerNamesMayBeThousands) {
  save(Tree{{"embed", memory_}});
  std::map<std::string, std::string> names;
  for (int i = 0; i < 5000; ++i) {
    names.emplace(fmt::format("n{}", i), fmt::format("n{}", i + 1));
  }

  EXPECT_EQ(load<Tree>({"item", AbstractTree(as_saved)}, also_called(names)), (Tree{{"embed", memory_}}));

  names.emplace("n5000", "embed");
  HeadOfModel model;
  names.emplace("head", "n0");
  load_into(model, also_called(names));
  EXPECT_EQ(model.head, memory_);
}

TEST_F(Aliases, AreKeptByWhatIsNotCopiedToo) {
  for (const Snapshot snapshot : {Snapshot::copy, Snapshot::borrow}) {
    SaveOptions options = again();
    options.snapshot = snapshot;
    save(tied(memory_), options);

    EXPECT_THAT(aliases(), ElementsAre("head of embed"));
    EXPECT_EQ(load<Tree>(), tied(memory_));
  }
}

TEST_F(Aliases, AreKeptWhereHandlersAreChecked) {
  ContextOptions options;
  options.check_handlers = true;
  const Context checking(options);

  core::start_save(path(), Checkpointables{{"item", tied(memory_)}}, handlers_, {}, checking).wait();

  EXPECT_THAT(aliases(), ElementsAre("head of embed"));
}

/// All rows of a 4 × 2 array, in two shards.
ShardedArray in_rows(Floats& memory, std::uint32_t replica = 0) {
  std::vector<Shard> shards;
  for (const std::uint64_t row : {0, 2}) {
    shards.push_back({Box({row, 0}, {2, 2}),
                      Array::borrow(MutableArrayView(memory.data() + 2 * row, {2, 2}, DType::float32)),
                      replica});
  }
  return {{4, 2}, DType::float32, std::move(shards)};
}

TEST_F(Aliases, MayBeOfShardedArrays) {
  Floats memory = {1, 2, 3, 4, 5, 6, 7, 8};
  const Tree tree = {{"embed", in_rows(memory)}, {"head", in_rows(memory)}};
  const SaveResult result = start(tree).wait();

  EXPECT_THAT(aliases(), ElementsAre("head of embed"));
  EXPECT_THAT(tensors(), ElementsAre("embed"));
  EXPECT_THAT(result.problems, IsEmpty());
  Floats mine(8);
  Tree model = {{"embed", in_rows(mine)}, {"head", in_rows(mine)}};
  load_into(model);
  EXPECT_EQ(mine, memory);
}

TEST_F(Aliases, AreNotShardedArraysOfOtherBoxes) {
  Floats memory = {1, 2, 3, 4, 5, 6, 7, 8};
  const Box whole = Box::whole({4, 2});
  const Array all = Array::borrow(MutableArrayView(memory.data(), {4, 2}, DType::float32));
  const std::vector<Tree> others = {ShardedArray({4, 2}, DType::float32, {{whole, all}}), in_rows(memory, 1),
                                    all};
  for (const Tree& other : others) {
    const SaveResult result = start(Tree{{"a", in_rows(memory)}, {"b", other}}, again()).wait();

    EXPECT_THAT(aliases(), IsEmpty());
    EXPECT_THAT(result.problems, ElementsAre(HasSubstr("'a' and 'b' overlap")));
    EXPECT_EQ(load<Tree>(), (Tree{{"a", all}, {"b", all}}));
  }
}

TEST_F(Aliases, OfArraysThatAreGoneAreRefusedByName) {
  save(tied(memory_));
  AbstractTree wanted;
  wanted["body"] = as_saved;
  wanted["head"] = AbstractArray({3, 3}, DType::float32);
  EXPECT_THAT(
      [&] {
        static_cast<void>(load<Tree>({"item", wanted}));
      },
      Fails(Errc::shape_mismatch, HasSubstr("'head': stored shape [3, 2], wanted [3, 3]")));
  std::filesystem::remove(item("data-r00000-000.safetensors"));
  EXPECT_THAT([&] { static_cast<void>(load<Tree>()); },
              Fails(Errc::not_found, Not(HasSubstr("belong to another array"))));
}

TEST_F(Aliases, OfElementsInOneArrayAreNamed) {
  const std::vector<float> memory(10);
  const std::vector<float> row(10);
  const ArrayView windows(memory.data(), {7, 4}, DType::float32, Strides{4, 4});
  const ArrayView rows(row.data(), {3, 10}, DType::float32, Strides{0, 4});

  const SaveResult result =
      start(Tree{{"windows", Array::borrow(windows)}, {"repeated", Array::borrow(rows)}}).wait();

  EXPECT_THAT(result.problems,
              ElementsAre(AllOf(HasSubstr("'item'"), HasSubstr("over each other in the memory of 'windows'"),
                                HasSubstr("strides in bytes"))));
}

}  // namespace
}  // namespace cairn
