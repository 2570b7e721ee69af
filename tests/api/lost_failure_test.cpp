// SPDX-License-Identifier: Apache-2.0
// Failures of saves that nobody waits for: in programs that end after they have dropped the response, and of
// overwrites that have committed and could not remove the old checkpoint.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/fixture.hpp"
#include "support/forwarding_syscalls.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// More than the disk of these programs takes.
Tree large_tree() {
  return {{"weights", Array::zeros({8 << 20}, DType::float32)}};
}

/// As a full disk, without one: no file may have more than 1 MiB.
void limit_files() {
  constexpr rlimit kLimit{1 << 20, 1 << 20};
  ::setrlimit(RLIMIT_FSIZE, &kLimit);
  ::signal(SIGXFSZ, SIG_IGN);
}

class LostFailure : public ::testing::Test {
 protected:
  LostFailure() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  /// One line that names the checkpoint and says why.
  static auto is_one_line() { return ContainsRegex("^cairn: [^\n]*flight: [^\n]*File too large[^\n]*\n$"); }

  const testing::TempDir directory_;
};

TEST_F(LostFailure, AfterTheLastStatementIsALineOnStderr) {
  const std::filesystem::path path = directory_ / "flight";

  EXPECT_EXIT(
      {
        limit_files();
        static_cast<void>(save_async(path, large_tree()));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), is_one_line());
}

TEST_F(LostFailure, OfAContextThatEndsIsALineOnStderr) {
  const std::filesystem::path path = directory_ / "flight";

  EXPECT_EXIT(
      {
        limit_files();
        {
          const Context context;
          static_cast<void>(save_async(path, large_tree(), SaveOptions(), context));
        }
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), is_one_line());
}

TEST_F(LostFailure, IsSilentWhereItsFunctionIsEmpty) {
  const std::filesystem::path path = directory_ / "flight";

  EXPECT_EXIT(
      {
        limit_files();
        ContextOptions options;
        options.on_lost_failure = nullptr;
        {
          const Context context(std::move(options));
          static_cast<void>(save_async(path, large_tree(), SaveOptions(), context));
        }
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), IsEmpty());
}

TEST_F(LostFailure, IsNoneOfAResponseThatWasAsked) {
  const std::filesystem::path path = directory_ / "flight";

  EXPECT_EXIT(
      {
        limit_files();
        try {
          save(path, large_tree());
        } catch (const std::exception&) {
          std::exit(5);
        }
      },
      ::testing::ExitedWithCode(5), IsEmpty());
}

TEST_F(LostFailure, DoesNotEndAProgramWhoseStderrNobodyReads) {
  EXPECT_EXIT(
      {
        int ends[2];
        if (::pipe(ends) == 0) {
          ::dup2(ends[1], STDERR_FILENO);
          ::close(ends[0]);
          ::close(ends[1]);
          print_lost_failure("path", std::make_exception_ptr(Error(Errc::io_failure, "text")));
          std::exit(3);
        }
      },
      ::testing::ExitedWithCode(3), "");
}

TEST_F(LostFailure, IsOneLineWhateverItsTextIs) {
  ::testing::internal::CaptureStderr();

  print_lost_failure("a\nb", std::make_exception_ptr(Error(Errc::io_failure, "two\nlines\x1b[2J")));

  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, ContainsRegex("^cairn: a\\\\nb: [^\n\x1b]*two[^\n\x1b]*lines[^\n\x1b]*\n$"));
}

/// A disk that removes nothing.
class KeepingDisk final : public testing::ForwardingSyscalls {
 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    return call.kind == testing::CallKind::unlink ? -EIO : call.make();
  }
};

class LostResult : public testing::ApiTest {
 protected:
  LostResult() {
    save_items({{"model", tree_}});
    ContextOptions options = small();
    options.syscalls = std::make_shared<KeepingDisk>();
    options.on_lost_failure = [this](const std::string& path, const std::exception_ptr& failure) {
      lost_.push_back(path + ": " + describe(failure));
    };
    context_.emplace(std::move(options));
  }

  [[nodiscard]] AsyncResponse overwrite() const {
    SaveOptions options;
    options.overwrite = true;
    return save_checkpointables_async(target(), {{"model", tree_}}, options, *context_);
  }

  std::vector<std::string> lost_;
};

TEST_F(LostResult, OfAnOverwriteTellsTheContextWhatItCouldNotRemove) {
  static_cast<void>(overwrite());

  EXPECT_THAT([this] { context_->close(); }, Fails(Errc::io_failure, HasSubstr("Input/output error")));
  ASSERT_THAT(lost_, SizeIs(1));
  EXPECT_THAT(lost_[0], AllOf(HasSubstr(target().string()), HasSubstr("Input/output error")));
}

TEST_F(LostResult, IsNoneWhereSomebodyHasIt) {
  EXPECT_THAT(overwrite().wait().problems, SizeIs(1));

  EXPECT_NO_THROW(context_->close());
  EXPECT_THAT(lost_, IsEmpty());
}

}  // namespace
}  // namespace cairn
