// SPDX-License-Identifier: Apache-2.0
#include "cairn/array_store/array_entries.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "array_store/index_of.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> listed(const ArrayEntries& entries) {
  std::vector<std::string> names;
  for (const ArrayEntry& entry : entries) {
    names.push_back(std::string(entry.name) + ":" + std::to_string(entry.bytes));
  }
  return names;
}

TEST(ArrayEntries, AreTheArraysOfAnIndex) {
  formats::IndexBuilder builder;
  const std::uint32_t file = builder.add_file("data");
  const auto add = [&](std::string_view name, DType dtype, const std::vector<std::uint64_t>& dims) {
    builder.add_array(name, dtype, dims);
    builder.add_whole(file, 0);
  };
  add("c", DType::float64, {2, 3});
  builder.add_integer("b", 1);
  add("a", DType::uint8, {3});
  add("d", DType::float64, {2, 3});
  builder.add_string("e", "text");

  const ArrayEntries entries(std::make_shared<const formats::Index>(testing::index_of(builder)));

  EXPECT_EQ(entries.size(), 3u);
  EXPECT_THAT(listed(entries), ElementsAre("a:3", "c:48", "d:48"));
}

TEST(ArrayEntries, AreTheArraysThatWereDescribed) {
  const ArrayEntries entries({{"x", DType::int32, {5}}, {"y", DType::int8, {0, 2}}});

  EXPECT_THAT(listed(entries), ElementsAre("x:20", "y:0"));
}

TEST(ArrayEntries, AreNoneByDefault) {
  EXPECT_TRUE(ArrayEntries().empty());
  EXPECT_THAT(listed(ArrayEntries()), ElementsAre());
}

}  // namespace
}  // namespace cairn
