// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/internal/index.hpp"
#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string join(const std::vector<std::string>& keys) {
  std::string path;
  for (const std::string& key : keys) {
    append_key(path, key);
  }
  return path;
}

TEST(AppendKey, JoinsKeysWithSlashes) {
  EXPECT_EQ(join({"layers", "0", "w"}), "layers/0/w");
}

TEST(AppendKey, EscapesWhatWouldSplitAKey) {
  EXPECT_EQ(join({"a/b", "~", "~1"}), "a~1b/~0/~01");
}

TEST(AppendKey, WritesAnEmptyKeySoThatItIsNotTheRoot) {
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(join({""}), "~2");
  EXPECT_EQ(join({"a", ""}), "a/~2");
}

TEST(SplitPath, UndoesAppendKey) {
  const std::vector<std::string> keys = {"", "~2", "a/b~c", "~01", std::string("\0é", 3), "/", ".."};

  EXPECT_EQ(split_path(join(keys)), keys);
}

TEST(SplitPath, FindsNoKeysInTheRoot) {
  EXPECT_THAT(split_path(""), IsEmpty());
}

TEST(SplitPath, RefusesWhatAppendKeyNeverWrites) {
  for (const char* path : {"/", "/a", "a/", "a//b", "~", "a~", "a~2", "~2b", "~3", "~/a", "\xFF"}) {
    EXPECT_THAT([&] { static_cast<void>(split_path(path)); },
                Fails(Errc::malformed_metadata, HasSubstr("not a path")))
        << path;
  }
}

}  // namespace
}  // namespace cairn::formats
