// SPDX-License-Identifier: Apache-2.0
#include "store/internal/memory_mark.hpp"

#include <string>

#include <gmock/gmock.h>

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

MemoryMark some_mark() {
  MemoryMark mark;
  mark.run = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
  mark.root = "/data/\"run\" 42";
  mark.limit_bytes = (std::uint64_t{1} << 40) + 1;
  mark.ranks = 8;
  mark.names = {{"step_\"0", 8}, {"", 0}};
  return mark;
}

TEST(MemoryMarks, AreReadAsTheyWereWritten) {
  EXPECT_EQ(parse_mark(encode_mark(some_mark()), "mark"), some_mark());
}

TEST(MemoryMarks, MaySayMore) {
  EXPECT_EQ(parse_mark(R"({"format": 1, "run": "r", "more": [1, {}], "root": "/d"})", "mark").root, "/d");
}

TEST(MemoryMarks, AreRefusedWhereTheyAreNone) {
  for (const char* text : {"", "[]", "{}", R"({"format": 1, "run": "r"})", R"({"run": "r", "root": "/d"})",
                           R"({"format": 1, "run": "r", "root": "/d", "ranks": 0})",
                           R"({"format": 1, "run": "r", "root": "/d", "ranks": 4294967296})",
                           R"({"format": 1, "format": 1, "run": "r", "root": "/d"})",
                           R"({"format": 1, "run": "r", "root": "/d", "names": {}})",
                           R"({"format": 1, "run": "r", "root": "/d", "names": [{"width": -1}]})",
                           R"({"format": 0, "run": "r", "root": "/d"})"}) {
    EXPECT_THAT([&] { static_cast<void>(parse_mark(text, "here/mark")); },
                Fails(Errc::malformed_metadata, HasSubstr("here/mark")))
        << text;
  }
}

TEST(MemoryMarks, OfALaterFormatSaySo) {
  EXPECT_THAT([] { static_cast<void>(parse_mark(R"({"format": 2, "new": {}})", "here/mark")); },
              Fails(Errc::unsupported_version, HasSubstr("here/mark has format 2")));
}

class MarksAbove : public ::testing::Test {
 protected:
  MarksAbove() { std::filesystem::create_directory(temp_ / "root"); }

  [[nodiscard]] std::optional<MemoryMark> read() const {
    return read_mark_above(io::Directory::open(io::posix_syscalls(), temp_ / "root"));
  }

  testing::TempDir temp_;
};

TEST_F(MarksAbove, AreFoundAndMayBeMissing) {
  EXPECT_EQ(read(), std::nullopt);

  testing::write_text(temp_ / ".cairn-memory", encode_mark(some_mark()));

  EXPECT_EQ(read(), some_mark());
}

TEST_F(MarksAbove, AreNoLinksAndNoDirectories) {
  testing::write_text(temp_ / "elsewhere", encode_mark(some_mark()));
  std::filesystem::create_symlink("elsewhere", temp_ / ".cairn-memory");
  EXPECT_EQ(read(), std::nullopt);

  std::filesystem::remove(temp_ / ".cairn-memory");
  std::filesystem::create_directory(temp_ / ".cairn-memory");
  EXPECT_EQ(read(), std::nullopt);
}

TEST_F(MarksAbove, AreNotReadWhereTheyAreHuge) {
  testing::write_text(temp_ / ".cairn-memory", std::string(1 << 20, ' '));

  EXPECT_THAT([&] { static_cast<void>(read()); },
              Fails(Errc::malformed_metadata, HasSubstr("1048576 bytes")));
}

}  // namespace
}  // namespace cairn::store
