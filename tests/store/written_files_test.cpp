// SPDX-License-Identifier: Apache-2.0
#include "store/internal/written_files.hpp"

#include <string>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "support/fails.hpp"

namespace cairn::store {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

io::FileDigest digest_of(const std::string& path) {
  io::FileDigest digest;
  digest.path = path;
  return digest;
}

TEST(WrittenFiles, RefuseANameThatIsClaimedTwice) {
  WrittenFiles files;
  files.claim("item/a", 1);

  EXPECT_THAT([&] { files.claim("item/a", 2); }, Fails(Errc::already_exists, HasSubstr("'item/a'")));
  EXPECT_EQ(files.bytes(), 1u);
}

TEST(WrittenFiles, CountTheBytesOfAll) {
  WrittenFiles files;
  files.claim("item/a", 10);
  files.claim("item/b", 0);
  files.grow(5);

  EXPECT_EQ(files.bytes(), 15u);
}

TEST(WrittenFiles, NameAFileThatWasBegunAndNeverEntered) {
  WrittenFiles files;
  files.claim("item/a", 1);
  files.claim("item/b", 1);
  files.add(digest_of("item/a"));

  EXPECT_THAT([&] { files.require_complete("item/", "; why"); },
              Fails(Errc::handler_failed, AllOf(HasSubstr("'item/b'"), HasSubstr("; why"))));
}

TEST(WrittenFiles, AskOnlyForThoseBelowAPrefix) {
  WrittenFiles files;
  files.claim("item/a", 1);
  files.claim("item2/b", 1);
  files.add(digest_of("item/a"));

  EXPECT_NO_THROW(files.require_complete("item/", ""));
  EXPECT_THAT([&] { files.require_complete("", ""); }, Fails(Errc::handler_failed));
}

TEST(WrittenFiles, GiveTheirDigestsAwayOnce) {
  WrittenFiles files;
  files.claim("item/a", 1);
  files.add(digest_of("item/a"));

  EXPECT_TRUE(files.take_digests().contains("item/a"));
  EXPECT_TRUE(files.take_digests().empty());
}

}  // namespace
}  // namespace cairn::store
