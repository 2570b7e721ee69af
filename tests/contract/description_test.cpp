// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/contract/handler.hpp"

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
