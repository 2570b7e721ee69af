// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/into.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/describe/class.hpp>

#include "cairn/handlers/describe.hpp"

#include "handlers/store.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

struct Layer {
  std::vector<float> weights;
  std::array<double, 2> range{};
  friend bool operator==(const Layer&, const Layer&) = default;
};
BOOST_DESCRIBE_STRUCT(Layer, (), (weights, range))

struct Model {
  std::int64_t step = 0;
  std::string name;
  std::vector<Layer> layers;
  std::map<std::string, std::vector<int>> counts;
  std::optional<Layer> head;
  std::vector<bool> flags;
  Tree rest;
  Array mask;
  friend bool operator==(const Model&, const Model&) = default;
};
BOOST_DESCRIBE_STRUCT(Model, (), (step, name, layers, counts, head, flags, rest, mask))

struct Wide {
  std::vector<double> weights;
  std::vector<float> range;
};
BOOST_DESCRIBE_STRUCT(Wide, (), (weights, range))

Model make_model() {
  Model model;
  model.step = 7;
  model.name = "digits";
  model.layers = {{{1, 2, 3}, {-1, 1}}, {{4}, {0, 2}}};
  model.counts = {{"a", {1, 2}}, {"b/c", {}}};
  model.head = Layer{{9}, {3, 4}};
  model.flags = {true, false};
  model.rest = {{"x", std::vector<float>{5}}, {"y", "text"}};
  model.mask = Array::zeros({3}, DType::boolean);
  return model;
}

/// With a tree of what was loaded beside the object, and without.
class Into : public testing::StoreTest, public ::testing::WithParamInterface<bool> {
 protected:
  template <class T>
  void load_into(T& object, Narrowing narrowing = Narrowing::refused) {
    LoadOptions options;
    if (GetParam()) {
      options.handler_options.set(ObjectsOnly());
    }
    static_cast<void>(
        core::start_load(path(), {{"item", into(object, narrowing)}}, handlers_, options, context_).wait());
  }
};

INSTANTIATE_TEST_SUITE_P(Trees, Into, ::testing::Bool());

TEST_P(Into, FillsAStructThatIsEmpty) {
  const Model saved = make_model();
  save(to_tree(saved));
  Model model;

  load_into(model);

  EXPECT_EQ(model, saved);
}

TEST_P(Into, ReadsElementsToWhereTheyAre) {
  const Model saved = make_model();
  save(to_tree(saved));
  Model model = make_model();
  model.step = 0;
  model.layers[0].weights = {0, 0, 0};
  const float* weights = model.layers[0].weights.data();

  const Tree loaded = load<Tree>({"item", into(model)});

  EXPECT_EQ(model, saved);
  EXPECT_EQ(model.layers[0].weights.data(), weights);
  EXPECT_EQ(loaded.at("layers/0/weights").as<std::span<const float>>().data(), weights);
}

TEST_P(Into, ReplacesWhatAStructHadMore) {
  Model saved = make_model();
  saved.layers.pop_back();
  saved.head.reset();
  saved.counts.clear();
  save(to_tree(saved));
  Model model = make_model();

  load_into(model);

  EXPECT_EQ(model, saved);
}

TEST_P(Into, CastsElementsAsPlacesDo) {
  const Layer layer{{1, 2.5F}, {1, 0.1}};
  save(to_tree(layer));
  Wide wide;

  EXPECT_THAT([&] { load_into(wide); }, Fails(Errc::unsafe_cast, HasSubstr("'range'")));
  load_into(wide, Narrowing::allowed);

  EXPECT_EQ(wide.weights, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(wide.range, (std::vector<float>{1, 0.1F}));
}

TEST_P(Into, NarrowsNumbersWhereTheLoadAllowsItForAll) {
  using namespace std::chrono_literals;
  using Value = std::pair<int, std::chrono::seconds>;
  save(Tree(std::pair(2.9, 3500ms)));
  TreeLoadOptions options;
  options.allow_narrowing = true;
  Value value;

  EXPECT_THAT([&] { load_into(value); }, Fails(Errc::unsafe_cast, HasSubstr("'0' is 2.9")));
  static_cast<void>(load<Tree>({"item", into(value)}, options));

  EXPECT_EQ(value, Value(2, 3s));
  EXPECT_EQ(load<Value>("item", options), value);
}

TEST_P(Into, FillsNumbersFromArraysOfRank0) {
  const double loss = 0.25;
  save(Tree{{"loss", ArrayView(&loss, {}, DType::float64)}});
  std::map<std::string, float> numbers;

  load_into(numbers);

  EXPECT_EQ(numbers, (std::map<std::string, float>{{"loss", 0.25F}}));
}

TEST_P(Into, NamesMembersThatAreNotThere) {
  Tree tree = to_tree(make_model());
  tree["layers"][0].as_map().erase("range");
  save(tree);
  Model model;

  EXPECT_THAT([&] { load_into(model); },
              Fails(Errc::structure_mismatch, HasSubstr("members that the tree lacks: 'layers/0/range'")));
}

TEST_P(Into, NamesMembersOfAnotherKindOrShape) {
  Layer layer;
  save(Tree({{"weights", Array::zeros({2, 2}, DType::float32)}, {"range", std::vector<double>{1, 2}}}));
  EXPECT_THAT([&] { load_into(layer); }, Fails(Errc::shape_mismatch, HasSubstr("'weights'")));

  SaveOptions again;
  again.overwrite = true;
  save(Tree({{"weights", std::vector<float>{1}}, {"range", std::vector<double>{1, 2, 3}}}), again);
  EXPECT_THAT([&] { load_into(layer); }, Fails(Errc::shape_mismatch, HasSubstr("'range'")));

  save(Tree({{"weights", std::vector<float>{1}}, {"range", 3}}), again);
  EXPECT_THAT([&] { load_into(layer); }, Fails(Errc::type_mismatch, HasSubstr("'range'")));
}

TEST_P(Into, FillsContainersAndSingleValues) {
  const std::map<std::string, std::vector<float>> saved = {{"a", {1}}, {"b", {2, 3}}};
  save(Tree(saved));
  std::map<std::string, std::vector<float>> map;
  load_into(map);
  EXPECT_EQ(map, saved);

  SaveOptions again;
  again.overwrite = true;
  save(Tree(5), again);
  double number = 0;
  load_into(number);
  EXPECT_EQ(number, 5.0);

  save(Tree(saved.at("b")), again);
  std::vector<float> elements;
  load_into(elements);
  EXPECT_EQ(elements, saved.at("b"));
}

TEST_P(Into, FillsATreeInItsMemory) {
  const std::vector<float> saved = {1, 2, 3};
  save(Tree({{"params", {{"w", saved}}}, {"step", 100}, {"name", "new"}, {"extra", {1, 2}}}));
  std::vector<double> mine(3);
  Tree tree = {{"params", {{"w", mine}}}, {"step", 0}, {"name", "old"}, {"extra", nullptr}};

  load_into(tree);

  EXPECT_EQ(mine, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(tree.at("params/w").as<std::span<double>>().data(), mine.data());
  EXPECT_EQ(tree.get<int>("step"), 100);
  EXPECT_EQ(tree.get<std::string>("name"), "new");
  EXPECT_EQ(tree.get<int>("extra/1"), 2);
}

TEST_P(Into, RefusesATreeOfAnotherStructure) {
  save(Tree({{"w", std::vector<float>{1}}, {"step", 1}}));
  Tree lacking = {{"w", std::vector<float>{0}}};
  Tree other = {{"w", std::vector<float>{0, 0}}, {"step", 1}};
  Tree kinds = {{"w", std::vector<float>{0}}, {"step", "one"}};

  EXPECT_THAT([&] { load_into(lacking); }, Fails(Errc::structure_mismatch, HasSubstr("'step'")));
  EXPECT_THAT([&] { load_into(other); }, Fails(Errc::shape_mismatch, HasSubstr("'w'")));
  EXPECT_THAT([&] { load_into(kinds); }, Fails(Errc::type_mismatch, HasSubstr("'step'")));
}

TEST_P(Into, RefusesReadOnlyArraysByName) {
  const std::vector<float> constant = {0};
  save(Tree({{"w", constant}}));
  Tree tree = {{"w", constant}};

  EXPECT_THAT([&] { load_into(tree); }, Fails(Errc::invalid_argument, HasSubstr("'w' is read-only")));
  EXPECT_THAT([&] { static_cast<void>(into(Array(constant))); }, Fails(Errc::invalid_argument));
}

TEST_P(Into, RefusesToStandForAPartOfATree) {
  save(Tree({{"layer", to_tree(Layer())}}));
  Layer layer;
  AbstractTree wanted;
  wanted["layer"] = into(layer);

  EXPECT_THAT(
      [&] {
        static_cast<void>(load<Tree>({"item", wanted}));
      },
      Fails(Errc::invalid_argument, HasSubstr("'layer': an object to load into")));
}

TEST_P(Into, FindsDamagedBytes) {
  const std::vector<float> saved(100'000, 1.5F);
  save(Tree({{"weights", saved}, {"range", std::vector<double>{1, 2}}}));
  std::fstream file(item("data-r00000-000.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(200'000);
  file.put('\x7f');
  file.close();
  Layer layer;

  EXPECT_THAT([&] { load_into(layer); }, Fails(Errc::checksum_mismatch));
}

TEST_P(Into, FillsArraysAndViews) {
  const std::vector<float> saved = {1, 2};
  save(Array(saved));
  std::vector<double> mine(2);
  const Array array = Array::zeros({2}, DType::float32);

  static_cast<void>(load<Array>({"item", into(MutableArrayView(mine))}));
  static_cast<void>(load<Array>({"item", into(array)}));

  EXPECT_EQ(mine, (std::vector<double>{1, 2}));
  EXPECT_EQ(array, Array(saved));
}

}  // namespace
}  // namespace cairn
