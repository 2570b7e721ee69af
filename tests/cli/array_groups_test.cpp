// SPDX-License-Identifier: Apache-2.0
#include "cli/array_groups.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace cairn::cli {
namespace {

using ::testing::ElementsAre;

NamedArray array(std::string name, DType dtype = DType::float32, std::uint64_t bytes = 4) {
  NamedArray made;
  made.name = std::move(name);
  made.entry.dtype = dtype;
  made.entry.shape = Shape({1});
  made.entry.bytes = bytes;
  return made;
}

std::vector<std::string> folded(const std::vector<NamedArray>& arrays) {
  std::vector<std::string> lines;
  for (const ArrayGroup& group : fold(arrays)) {
    lines.push_back(fmt::format("{} x {}", group.count, group.name));
  }
  return lines;
}

TEST(Fold, PutsNamesThatDifferInANumberIntoOneGroup) {
  EXPECT_THAT(folded({array("l.0.q"), array("l.1.q"), array("l.2.q"), array("l.9.q"), array("norm")}),
              ElementsAre("4 x l.[0-2,9].q", "1 x norm"));
}

TEST(Fold, FoldsSeveralNumbers) {
  std::vector<NamedArray> arrays;
  for (const int layer : {0, 1, 2}) {
    for (const int expert : {0, 1, 2, 3}) {
      arrays.push_back(array(fmt::format("l{}/e{}/w", layer, expert)));
    }
  }

  EXPECT_THAT(folded(arrays), ElementsAre("12 x l[0-2]/e[0-3]/w"));
}

TEST(Fold, KeepsOtherDtypesAliasesAndFewArraysApart) {
  std::vector<NamedArray> arrays{array("a0"), array("a1"), array("b0"), array("b1", DType::int8),
                                 array("b2")};
  EXPECT_EQ(folded(arrays).size(), 5U);

  arrays = {array("a0"), array("a1"), array("a2")};
  arrays[2].entry.alias_of = "a0";
  EXPECT_EQ(folded(arrays).size(), 3U);
}

TEST(Fold, LeavesNumbersThatDoNotFit) {
  const std::string large(30, '9');
  EXPECT_EQ(folded({array("a" + large), array("a1" + large), array("a2" + large)}).size(), 3U);
}

TEST(ArrayTotals, CountByDtypeAndByGroup) {
  const std::vector<NamedArray> arrays{array("layers/10/w"), array("layers/2/w"),
                                       array("layers/2/b", DType::int8, 1), array("norm")};

  const std::vector<ArrayTotal> dtypes = totals_by_dtype(arrays);
  ASSERT_EQ(dtypes.size(), 2U);
  EXPECT_EQ(dtypes[0].count + dtypes[1].count, 4U);
  EXPECT_EQ(dtypes[0].bytes + dtypes[1].bytes, 13U);
  const std::vector<ArrayTotal> groups = totals_by_group(arrays, 2);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].name, "layers/2/**");
  EXPECT_EQ(groups[0].bytes, 5U);
  EXPECT_EQ(groups[1].name, "layers/10/**");
  EXPECT_EQ(groups[2].name, "norm");
}

}  // namespace
}  // namespace cairn::cli
