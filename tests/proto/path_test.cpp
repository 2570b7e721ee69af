// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/path.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"

#include "support/fails.hpp"

namespace cairn::proto {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

TEST(Path, IsReadFromText) {
  EXPECT_EQ(parse_path("node[5].attr[\"value\"].tensor"), (Path{"node", 5, "attr", "value", "tensor"}));
  EXPECT_EQ(parse_path("5.3[true][-7]"), (Path{5, 3, true, -7}));
  EXPECT_EQ(parse_path("a[package.extension].b"), (Path{"a", "package.extension", "b"}));
  EXPECT_EQ(parse_path(R"(m["a\"]\\\x00\n"])"), (Path{"m", std::string("a\"]\\\0\n", 6)}));
  EXPECT_EQ(parse_path("m[18446744073709551615]"), (Path{"m", std::numeric_limits<std::uint64_t>::max()}));
  EXPECT_EQ(parse_path(""), Path());
}

TEST(Path, IsTheSameAfterTextAndBack) {
  for (const Path& path :
       {Path{}, Path{"a"}, Path{"a", 5, -5, true, false, "b c", "", "x.y", "true", "5"}, Path{7},
        Path{std::numeric_limits<std::int64_t>::min(), std::string("\"\\\0\x1f\xff", 5)}}) {
    EXPECT_EQ(parse_path(to_text(path)), path) << to_text(path);
  }
}

TEST(Path, IsRefusedWithThePlaceInTheText) {
  for (const auto& [text, why] :
       {std::pair{"a..b", "a name is missing at character 2"},
        {"a[", "an index, a key or the name of an extension is missing at character 2"},
        {"a[5", "']' is missing at character 3"},
        {"a[\"b]", "'\"' is missing"},
        {"a b", "'.' is missing at character 1"},
        {"a[99999999999999999999]", "is not a whole number of 64 bits"},
        {"a[5x]", "'5x' is not a whole number"},
        {R"(a["\q"])", "an unknown escape"},
        {R"(a["\x1)", "an unknown escape"}}) {
    EXPECT_THAT([&text = text] { (void)parse_path(text); }, Fails(Errc::invalid_argument, HasSubstr(why)))
        << text;
  }
}

}  // namespace
}  // namespace cairn::proto
