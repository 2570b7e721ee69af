// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/json_tree.hpp"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"

#include "handlers/store.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

const nlohmann::json kDocument = {{"name", "first"},
                                  {"sizes", {1, -2, std::numeric_limits<std::uint64_t>::max()}},
                                  {"rates", {{"a/b", 0.5}, {"", nullptr}}},
                                  {"flags", {true, false}},
                                  {"nothing", nlohmann::json::object()},
                                  {"none", nlohmann::json::array()}};

nlohmann::json nested_arrays(std::size_t depth) {
  nlohmann::json value = 1;
  for (std::size_t i = 0; i < depth; ++i) {
    nlohmann::json outer = nlohmann::json::array();
    outer.push_back(std::move(value));
    value = std::move(outer);
  }
  return value;
}

class JsonInTrees : public testing::StoreTest {};

TEST_F(JsonInTrees, IsSavedAsASubtreeAndComesBack) {
  const std::vector<float> weights = {1, 2};
  const Tree state = {{"weights", weights}, {"config", kDocument}};
  save(state);

  const Tree loaded = load<Tree>();

  EXPECT_EQ(loaded.get<double>("config/rates/a~1b"), 0.5);
  EXPECT_EQ(loaded.get<nlohmann::json>("config"), kDocument);
}

TEST(JsonTree, IsAssignedToNodes) {
  Tree tree;
  tree["config"] = kDocument;
  nlohmann::json other = {{"a", 1}};
  tree["other"] = other;

  EXPECT_EQ(tree["config"], json_to_tree(kDocument));
  EXPECT_EQ(tree["other"], Tree({{"a", 1}}));
  EXPECT_EQ(tree_to_json(tree)["config"], kDocument);
}

TEST(JsonTree, BinaryValuesAreBytes) {
  const nlohmann::json value = nlohmann::json::binary({1, 2, 255});

  EXPECT_EQ(Tree(value), Tree(Bytes{std::byte{1}, std::byte{2}, std::byte{255}}));
  EXPECT_EQ(tree_to_json(Tree(value)), value);
  EXPECT_THAT(
      [] {
        static_cast<void>(json_to_tree({{"b", nlohmann::json::binary({1}, 7)}}));
      },
      Fails(Errc::invalid_argument, HasSubstr("'b' is binary with the subtype 7")));
}

TEST(JsonTree, NamesWhatJsonDoesNotHave) {
  const Tree tree = {{"a", Tree::list({1, std::vector<float>{1}})}};

  EXPECT_THAT([&] { static_cast<void>(tree.as<nlohmann::json>()); },
              Fails(Errc::type_mismatch, HasSubstr("'a/1' is of kind array")));
}

TEST(JsonTree, RefusesWhatIsTooDeep) {
  EXPECT_EQ(tree_to_json(json_to_tree(nested_arrays(kMaxJsonDepth))), nested_arrays(kMaxJsonDepth));
  EXPECT_THAT([] { static_cast<void>(json_to_tree(nested_arrays(kMaxJsonDepth + 1))); },
              Fails(Errc::invalid_argument, HasSubstr("deeper than 512")));
  Tree tree = 1;
  for (std::size_t i = 0; i <= kMaxJsonDepth; ++i) {
    tree = Tree::list(Tree::List{std::move(tree)});
  }
  EXPECT_THAT([&] { static_cast<void>(tree_to_json(tree)); },
              Fails(Errc::invalid_argument, HasSubstr("deeper than 512")));
}

TEST(JsonTree, RefusesDiscardedValues) {
  EXPECT_THAT([] { static_cast<void>(json_to_tree(nlohmann::json(nlohmann::json::value_t::discarded))); },
              Fails(Errc::invalid_argument, HasSubstr("discarded")));
}

}  // namespace
}  // namespace cairn
