// SPDX-License-Identifier: Apache-2.0
#include "base/internal/printable.hpp"

#include <string>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

namespace cairn {
namespace {

TEST(Printable, LeavesOrdinaryTextAlone) {
  EXPECT_EQ(printable("wéights/重み 😀 \\"), "wéights/重み 😀 \\");
}

TEST(Printable, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable(std::string("\x1b[31m\r\n\t\0\x7f", 10)), "\\x1b[31m\\x0d\\n\\t\\x00\\x7f");
}

TEST(Printable, EscapesLatinControlCharacters) {
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m"),
            "\\x9b1m");
}

TEST(Printable, EscapesMarksThatTurnTheDirectionOfWriting) {
  EXPECT_EQ(printable("a\u202Eb"), "a\\u202eb");
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("a\xFF\xC3"), "a\\xff\\xc3");
}

TEST(Printable, ShowsOverlongFormsAndSurrogatesAsBytes) {
  EXPECT_EQ(printable("\xC0\xAF\xED\xA0\x80"), "\\xc0\\xaf\\xed\\xa0\\x80");
}

TEST(Printable, ChangesNothingTheSecondTime) {
  const std::string once = printable(std::string("a\x1b[2J\\\xff\n\0", 9));

  EXPECT_EQ(printable(once), once);
}

TEST(ErrorText, CannotDriveATerminal) {
  const Error error(Errc::not_found, "'/tmp/\x1b]0;owned\x07\n' has no \xff");

  EXPECT_STREQ(error.what(), "'/tmp/\\x1b]0;owned\\x07\\n' has no \\xff: not found");
  EXPECT_EQ(error.detail(), "'/tmp/\\x1b]0;owned\\x07\\n' has no \\xff");
}

}  // namespace
}  // namespace cairn
