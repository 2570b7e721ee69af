// SPDX-License-Identifier: Apache-2.0
// A disk that fails: one request of a save or a load after the other, once or from then on. Then the disk works again,
// but its power has gone, too.
#include <system_error>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "disk/on_disk.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"

namespace cairn::disk {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr std::uint64_t kEndless = 1000;  // More requests than a save or a load makes.

/// How one attempt with a failing disk ended.
struct Ending {
  std::uint64_t hits = 0;
  std::error_code code;  // None: success.
  std::string text;
};

class FailingDisk : public OnDiskTest {
 protected:
  template <class Act>
  Ending run_with(const Fault& fault, const Act& act) {
    Ending ending;
    disk_.fail(fault);
    try {
      act();
    } catch (const Error& error) {
      ending.code = error.code();
      ending.text = error.what();
    }
    ending.hits = disk_.heal();
    return ending;
  }

  /// What a program finds that starts when the disk works again.
  void restart(std::uint64_t seed) {
    disk_.cut(seed);
    ASSERT_TRUE(disk_.mount_again());
    store::recover(io::posix_syscalls(), disk_.root());
  }

  void expect_errors_to_name_paths(const Ending& ending) {
    // Once its journal cannot be written, ext4 takes no more writes.
    EXPECT_THAT(ending.code, AnyOf(Eq(std::error_code(EIO, std::system_category())),
                                   Eq(std::error_code(EROFS, std::system_category())),
                                   Eq(make_error_code(Errc::commit_unknown))))
        << ending.text;
    EXPECT_THAT(ending.text, HasSubstr(disk_.root().string()));
  }

  /// Lets every request of a save fail in turn. Returns how many saves failed.
  int fail_each(Request request, std::uint64_t times) {
    int failed = 0;
    std::int64_t number = 2;
    for (std::uint64_t skipped = 0; skipped < kEndless && !HasFailure(); ++skipped, ++number) {
      const std::int64_t before = saved_number();
      const Ending ending = run_with({request, skipped, times}, [&] { save_number(number); });
      if (ending.code) {
        expect_errors_to_name_paths(ending);
        ++failed;
      }
      restart(skipped);
      if (ending.code == make_error_code(Errc::commit_unknown)) {
        EXPECT_THAT(saved_number(), AnyOf(before, number));
      } else {
        EXPECT_EQ(saved_number(), ending.code ? before : number) << "request " << skipped;
      }
      EXPECT_THAT(top_of(disk_.root()), ElementsAre("step"));
      if (ending.hits == 0) {
        fmt::print("disk: {}: {} {} failed {}, {} saves failed, 0 checkpoints lost\n", name_of(GetParam()),
                   skipped, request == Request::write ? "writes" : "flushes",
                   times == 1 ? "once" : "for good", failed);
        return failed;
      }
    }
    ADD_FAILURE() << "a save without an end, or one with a failure";
    return failed;
  }

  static std::vector<std::string> top_of(const std::filesystem::path& root) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
};

TEST_P(FailingDisk, KeepsTheOldCheckpointWhenOneWriteFails) {
  EXPECT_GT(fail_each(Request::write, 1), 0);
}

TEST_P(FailingDisk, KeepsTheOldCheckpointWhenAllWritesFailFromThenOn) {
  EXPECT_GT(fail_each(Request::write, kEndless), 0);
}

TEST_P(FailingDisk, NeverSaysThatIsSavedWhatOneFailedFlushMayHaveLost) {
  EXPECT_GT(fail_each(Request::sync, 1), 0);
}

TEST_P(FailingDisk, KeepsTheOldCheckpointWhenAllFlushesFailFromThenOn) {
  EXPECT_GT(fail_each(Request::sync, kEndless), 0);
}

TEST_P(FailingDisk, NamesTheFileThatALoadCannotRead) {
  std::vector<std::string> texts;
  for (std::uint64_t skipped = 0; skipped < kEndless; ++skipped) {
    ASSERT_TRUE(disk_.mount_again());  // With an empty page cache.
    const Ending ending = run_with({Request::read, skipped}, [&] { EXPECT_EQ(saved_number(), 1); });
    if (ending.hits == 0) {
      break;
    }
    if (ending.code) {
      EXPECT_EQ(ending.code, std::error_code(EIO, std::system_category()));
      EXPECT_THAT(ending.text, HasSubstr(disk_.root().string()));
      texts.push_back(ending.text);
    }
  }

  EXPECT_THAT(texts, Contains(AllOf(HasSubstr(".safetensors"), HasSubstr("Input/output error"))));
  ASSERT_TRUE(disk_.mount_again());
  EXPECT_EQ(saved_number(), 1);
}

INSTANTIATE_TEST_SUITE_P(Engines, FailingDisk,
                         ::testing::Values(Setting{kExt4, io::EngineKind::automatic, kSmall},
                                           Setting{kExt4, io::EngineKind::automatic, kLarge},
                                           Setting{kExt4, io::EngineKind::threads, kSmall},
                                           Setting{kExt4, io::EngineKind::threads, kLarge}),
                         [](const auto& setting) { return name_of(setting.param); });

}  // namespace
}  // namespace cairn::disk
