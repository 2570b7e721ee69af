// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/error.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "base/internal/checked.hpp"
#include "support/fails.hpp"
#include "support/test_data.hpp"

namespace cairn {
namespace {

using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::StrEq;

TEST(Error, SaysTheDetailAndTheMeaningOfItsCode) {
  const Error error(Errc::shape_mismatch, "'w': stored [4, 8] but requested [8, 8]");

  EXPECT_THAT(error.what(), StrEq("'w': stored [4, 8] but requested [8, 8]: shape mismatch"));
  EXPECT_EQ(error.code(), Errc::shape_mismatch);
}

TEST(Error, EqualsThePortableConditionWhereOneExists) {
  EXPECT_EQ(make_error_code(Errc::not_found), std::errc::no_such_file_or_directory);
  EXPECT_EQ(make_error_code(Errc::already_exists), std::errc::file_exists);
  EXPECT_NE(make_error_code(Errc::shape_mismatch), std::errc::invalid_argument);
}

TEST(Error, EveryCodeHasAMeaning) {
  for (int value = 1; value <= static_cast<int>(Errc::ranks_differ); ++value) {
    EXPECT_NE(cairn_category().message(value), "unknown error") << value;
  }
  EXPECT_EQ(cairn_category().message(static_cast<int>(Errc::ranks_differ) + 1), "unknown error");
  EXPECT_EQ(name(static_cast<Errc>(0)), "");
}

TEST(Error, TheDocumentHasEveryCodeInItsOrder) {
  std::vector<std::string> names;
  for (int value = 1; value <= static_cast<int>(Errc::ranks_differ); ++value) {
    names.emplace_back(name(static_cast<Errc>(value)));
  }
  std::vector<std::string> documented;
  std::ifstream page(testing::test_data() / "../../docs/errors.md");
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `")) {
      documented.push_back(line.substr(3, line.find('`', 3) - 3));
    }
  }

  EXPECT_EQ(documented, names);
}

TEST(ThrowErrno, KeepsTheErrnoAndNamesOperationPathAndOffset) {
  EXPECT_THAT([] { throw_errno(ENOSPC, "write", "/data/f", 4096); },
              FailsWithErrno(ENOSPC, HasSubstr("write /data/f at 4096")));
}

TEST(ThrowErrno, NamesTheLimitBehindAShortage) {
  ::rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);

  EXPECT_THAT(
      [] { throw_errno(EMFILE, "open", "/data/f"); },
      FailsWithErrno(EMFILE, HasSubstr("open /data/f (RLIMIT_NOFILE is " + std::to_string(files.rlim_cur))));
}

TEST(ThrowErrno, NamesTheLimitBehindAFileThatIsTooLarge) {
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const ::rlimit low{std::min<rlim_t>(before.rlim_max, 1 << 30), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);

  EXPECT_THAT([] { throw_errno(EFBIG, "fallocate", "/data/f"); },
              FailsWithErrno(EFBIG, HasSubstr("/data/f (RLIMIT_FSIZE is " + std::to_string(low.rlim_cur))));
  ::setrlimit(RLIMIT_FSIZE, &before);
}

TEST(Describe, SpeaksForExceptionsOfAnyType) {
  EXPECT_EQ(describe(std::make_exception_ptr(std::runtime_error("why"))), "why");
  EXPECT_EQ(describe(std::make_exception_ptr(7)), "an exception of an unknown type");
}

TEST(CodeOf, FindsTheCodeOnlyWhereThereIsOne) {
  EXPECT_EQ(code_of(std::make_exception_ptr(Error(Errc::closed, "x"))), make_error_code(Errc::closed));
  EXPECT_EQ(code_of(std::make_exception_ptr(7)), std::nullopt);
}

TEST(Checked, RefusesWhatDoesNotFit) {
  EXPECT_EQ(checked_add<unsigned char>(200, 55), 255);
  EXPECT_EQ(checked_add<unsigned char>(200, 56), std::nullopt);
  EXPECT_EQ(checked_multiply<int>(1 << 16, 1 << 15), std::nullopt);
  EXPECT_EQ(round_up(4097u, 4096u), 8192u);
}

/// Says whether errors can still be made when the program ends, after what was made last has been destroyed.
void end_with_an_error() {
  std::atexit([] {
    const Error error(Errc::closed, "the end");
    std::_Exit(error.code().message() == "closed" ? 5 : 6);
  });
  static_cast<void>(cairn_category());
  std::exit(0);
}

TEST(ErrorDeathTest, CanBeMadeUntilTheProgramHasEnded) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";

  EXPECT_EXIT(end_with_an_error(), ::testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace cairn
