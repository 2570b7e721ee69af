// SPDX-License-Identifier: Apache-2.0
#include "store/internal/checkpointable_names.hpp"

#include <string>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn::store {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

TEST(DirectoryOf, KeepsLowerCaseDigitsAndInnerDots) {
  EXPECT_EQ(directory_of("az09-_.z"), "az09-_.z");
}

TEST(DirectoryOf, WritesTheNeighboursOfWhatItKeepsAsBytes) {
  EXPECT_EQ(directory_of("`{/:,"), "%60%7b%2f%3a%2c");
  EXPECT_EQ(directory_of("AZ"), "%41%5a");
  EXPECT_EQ(directory_of("\xC3\xA9"), "%c3%a9");
}

TEST(DirectoryOf, WritesTheFirstAndTheLastDotAsBytes) {
  EXPECT_EQ(directory_of(".a.b."), "%2ea.b%2e");
  EXPECT_EQ(directory_of("."), "%2e");
}

TEST(DirectoryOf, DoesNotCollideWithTheCheckpointsOwnFiles) {
  EXPECT_EQ(directory_of("checkpoint.json"), "checkpoint%2ejson");
  EXPECT_EQ(directory_of("chunks.xxh3"), "chunks%2exxh3");
}

TEST(ValidateName, TakesADirectoryAsLongAsItMayBe) {
  EXPECT_NO_THROW(validate_name(std::string(kMaxDirectoryBytes, 'x')));
  EXPECT_NO_THROW(validate_name(std::string(kMaxDirectoryBytes / 3, 'X')));
}

TEST(ValidateName, RefusesADirectoryThatIsLongerWithItsLength) {
  EXPECT_THAT([] { validate_name(std::string(kMaxDirectoryBytes + 1, 'x')); },
              Fails(Errc::invalid_argument, HasSubstr("201 bytes")));
  EXPECT_THAT([] { validate_name(std::string(kMaxDirectoryBytes / 3 + 1, 'X')); },
              Fails(Errc::invalid_argument, HasSubstr("201 bytes")));
}

}  // namespace
}  // namespace cairn::store
