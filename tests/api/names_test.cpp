// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include "api/fixture.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Names : public testing::ApiTest {};

TEST_F(Names, ThatLookLikePathsWork) {
  const Tree up = {{"value", 1}};
  const Tree below = {{"value", 2}};
  const Tree hidden = {{"value", 3}};
  save_items({{"..", up}, {"a/b", below}, {".hidden", hidden}});

  Loaded loaded = load_items();

  EXPECT_EQ(loaded.take<Tree>(".."), up);
  EXPECT_EQ(loaded.take<Tree>("a/b"), below);
  EXPECT_EQ(loaded.take<Tree>(".hidden"), hidden);
}

TEST_F(Names, ThatDifferByCaseOrCompositionStayDistinct) {
  const Tree values[] = {Tree(1), Tree(2), Tree(3), Tree(4)};
  save_items({{"model", values[0]}, {"Model", values[1]}, {"\xC3\xA9", values[2]}, {"e\xCC\x81", values[3]}});

  Loaded loaded = load_items();

  EXPECT_EQ(loaded.take<Tree>("model"), values[0]);
  EXPECT_EQ(loaded.take<Tree>("Model"), values[1]);
  EXPECT_EQ(loaded.take<Tree>("\xC3\xA9"), values[2]);
  EXPECT_EQ(loaded.take<Tree>("e\xCC\x81"), values[3]);
}

TEST_F(Names, OfTheCheckpointsOwnFilesWork) {
  save_items({{"COMMIT", tree_}, {"checkpoint.json", tree_}, {"chunks.xxh3", tree_}, {".owner", tree_}});

  EXPECT_EQ(load_items().values().size(), 4u);
}

struct BadName {
  std::string name;
  std::string complaint;
};

class BadNames : public testing::ApiTest, public ::testing::WithParamInterface<BadName> {};

TEST_P(BadNames, AreRefusedBeforeAnythingIsWritten) {
  EXPECT_THAT(
      [&] {
        save_items({{"good", tree_}, {GetParam().name, tree_}});
      },
      Fails(Errc::invalid_argument, HasSubstr(GetParam().complaint)));
  EXPECT_THAT(left(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, BadNames,
                         ::testing::Values(BadName{"", "empty"}, BadName{std::string("a\0b", 3), "NUL"},
                                           BadName{"a\xFF", "UTF-8"},
                                           BadName{std::string(256, 'x'), "allowed"}));

TEST_F(Names, GivenTwiceAreRefusedBeforeAnythingIsWritten) {
  EXPECT_THAT(
      [&] {
        save_items({{"model", tree_}, {"model", tree_}});
      },
      Fails(Errc::already_exists, HasSubstr("'model'")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(Names, AskedForTwiceAreRefused) {
  save_items({{"model", tree_}});

  EXPECT_THAT(
      [&] {
        static_cast<void>(load_items({"model", "model"}));
      },
      Fails(Errc::invalid_argument, HasSubstr("'model'")));
}

TEST_F(Names, ThatTheCheckpointLacksAreNamedWithThoseThatItHas) {
  save_items({{"model", tree_}});

  EXPECT_THAT([&] { static_cast<void>(load_items({"modle"})); },
              Fails(Errc::not_found, HasSubstr("it has: model")));
}

}  // namespace
}  // namespace cairn
