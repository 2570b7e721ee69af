// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/fixture.hpp"
#include "io/faulty_syscalls.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::write_text;

/// Writes down which directories are synced, and when a checkpoint becomes visible.
class Journal final : public testing::ForwardingSyscalls {
 public:
  int sync(int fd) noexcept override {
    struct stat found {};
    ::fstat(fd, &found);
    note(std::to_string(found.st_ino));
    return ForwardingSyscalls::sync(fd);
  }
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    note("rename");
    return ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
  }

  std::vector<std::string> lines;

 private:
  void note(std::string line) {
    const std::lock_guard lock(mutex_);
    lines.push_back(std::move(line));
  }

  std::mutex mutex_;
};

class CreateParents : public testing::ApiTest {
 protected:
  void save_to(const std::string& path, unsigned levels = 1) const {
    SaveOptions options;
    options.create_parents = levels;
    save(directory_ / path, tree_, options, *context_);
  }

  void use(std::shared_ptr<io::Syscalls> syscalls) {
    ContextOptions options = small();
    options.syscalls = std::move(syscalls);
    context_.emplace(std::move(options));
  }

  [[nodiscard]] Tree load_from(const std::string& path) const {
    return load(directory_ / path, {}, *context_);
  }
};

TEST_F(CreateParents, MakesOneLevelUnasked) {
  save(directory_ / "run/7", tree_, {}, *context_);

  EXPECT_EQ(load_from("run/7"), tree_);
}

TEST_F(CreateParents, MakesAsManyLevelsAsAllowed) {
  save_to("a/b/c/7", 3);

  EXPECT_EQ(load_from("a/b/c/7"), tree_);
}

TEST_F(CreateParents, RefusesAMistypedPathAndNamesTheFirstMissingDirectory) {
  EXPECT_THAT([&] { save_to("rnu/steps/7"); },
              Fails(Errc::not_found,
                    HasSubstr((directory_ / "rnu").string() +
                              " is missing, 2 levels in all, and SaveOptions::create_parents is 1")));
  EXPECT_THAT([&] { save_to("run/7", 0); },
              Fails(Errc::not_found, HasSubstr("1 level in all, and SaveOptions::create_parents is 0")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(CreateParents, TakesPathsAsTheKernelDoes) {
  save_to("run/./7/");
  std::filesystem::create_directory_symlink("run", directory_ / "link");
  save_to("link/8");
  save_to("link//sub/9");

  EXPECT_EQ(load_from("run/7"), tree_);
  EXPECT_EQ(load_from("run/8"), tree_);
  EXPECT_EQ(load_from("run/sub/9"), tree_);
}

TEST_F(CreateParents, DoesNotGuessWhatLiesAboveAMissingDirectory) {
  EXPECT_THAT([&] { save_to("nowhere/../7", 5); },
              Fails(Errc::not_found,
                    HasSubstr("nowhere is missing, and no path is made that goes up from there by '..'")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(CreateParents, NamesADanglingLink) {
  std::filesystem::create_directory_symlink("gone", directory_ / "run");

  EXPECT_THAT([&] { save_to("run/7"); }, Fails(Errc::not_found, HasSubstr((directory_ / "run").string() +
                                                                          " is a dangling symbolic link")));
}

TEST_F(CreateParents, SaysThatAFileSystemHasNoDirectoriesOfOthers) {
  EXPECT_THAT([&] { save("/proc/self/run/7", tree_, {}, *context_); },
              FailsWithErrno(ENOENT, AllOf(HasSubstr("mkdir"), HasSubstr("/run: its file system"))));
}

TEST_F(CreateParents, NamesTheFileOnTheWay) {
  write_text(directory_ / "file", "mine");

  for (const char* path : {"file/7", "file/a/7", "file/a/b/7"}) {
    EXPECT_THAT(
        [&] { save_to(path, 3); },
        FailsWithErrno(ENOTDIR, AllOf(HasSubstr((directory_ / "file").string()), Not(HasSubstr("file/a:")))))
        << path;
  }
}

TEST_F(CreateParents, MakesNothingInACheckpoint) {
  save_to("7");
  const std::vector<std::string> before = left();

  EXPECT_THAT([&] { save_to("7/sub/8"); },
              Fails(Errc::invalid_argument, HasSubstr("lies in the checkpoint")));
  EXPECT_EQ(left(), before);
}

TEST_F(CreateParents, AFailedSaveRemovesWhatItMade) {
  const auto syscalls = std::make_shared<io::FaultySyscalls>();
  use(syscalls);
  syscalls->plan({io::Call::rename, 1, io::kForEver, -EIO});

  EXPECT_THAT([&] { save_to("a/b/7", 2); }, FailsWithErrno(EIO, HasSubstr("7")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(CreateParents, AFailedSaveKeepsWhatOthersPutThereAndWhatWasThere) {
  const auto syscalls = std::make_shared<io::FaultySyscalls>();
  use(syscalls);
  syscalls->plan({io::Call::rename, 1, io::kForEver, -EIO});
  std::filesystem::create_directory(directory_ / "a");
  AsyncResponse saving = save_async(directory_ / "a/b/7", tree_, {}, *context_);
  write_text(directory_ / "a/b/notes.txt", "mine");

  EXPECT_THAT([&] { static_cast<void>(saving.wait()); }, FailsWithErrno(EIO, HasSubstr("7")));
  EXPECT_THAT(left(), ElementsAre("a", "a/b", "a/b/notes.txt"));
}

TEST_F(CreateParents, AFailedSaveRemovesItsFirstLevelWhenTheSecondCannotBeMade) {
  const auto syscalls = std::make_shared<io::FaultySyscalls>();
  use(syscalls);
  syscalls->plan({io::Call::make_directory, 2, 1, -ENOSPC});

  EXPECT_THAT([&] { save_to("a/b/7", 2); }, FailsWithErrno(ENOSPC, HasSubstr("a/b")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(CreateParents, WhatWasMadeIsDurableBeforeTheCheckpointIsVisible) {
  const auto journal = std::make_shared<Journal>();
  use(journal);
  save_to("run/7");

  struct stat above {};
  ASSERT_EQ(::stat(directory_.path().c_str(), &above), 0);
  const auto& lines = journal->lines;
  const auto synced = std::find(lines.begin(), lines.end(), std::to_string(above.st_ino));
  const auto renamed = std::find(lines.begin(), lines.end(), "rename");
  ASSERT_NE(renamed, lines.end());
  EXPECT_LT(synced - lines.begin(), renamed - lines.begin());
}

TEST_F(CreateParents, ASaveIntoADirectoryThatIsThereSyncsNothingAboveIt) {
  save_to("run/7");
  const auto journal = std::make_shared<Journal>();
  use(journal);
  save_to("run/8");

  struct stat above {};
  ASSERT_EQ(::stat(directory_.path().c_str(), &above), 0);
  EXPECT_THAT(journal->lines, Not(::testing::Contains(std::to_string(above.st_ino))));
}

TEST_F(CreateParents, ThatCannotBeMadeDurableFailTheSave) {
  const auto syscalls = std::make_shared<io::FaultySyscalls>();
  use(syscalls);
  syscalls->plan({io::Call::sync, 1, io::kForEver, -EIO});

  EXPECT_THAT([&] { save_to("run/7"); }, FailsWithErrno(EIO, HasSubstr("sync")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(CreateParents, SavesAtOnceShareWhatOneOfThemMade) {
  for (int round = 0; round < 20; ++round) {
    const std::string run = "run" + std::to_string(round);
    std::atomic<int> failures{0};
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
          SaveOptions options;
          if (i % 2 == 0) {
            options.custom_metadata = "null";
            options.deadline =
                std::chrono::nanoseconds(1);  // Fails at once, or as soon as it has made the directory.
          }
          try {
            save(directory_ / run / std::to_string(i), tree_, options, *context_);
          } catch (const Error&) {
            failures += i % 2 == 0 ? 0 : 1;
          }
        });
      }
    }
    EXPECT_EQ(failures, 0) << round;
    EXPECT_EQ(load_from(run + "/1"), tree_);
    EXPECT_EQ(load_from(run + "/3"), tree_);
  }
}

}  // namespace
}  // namespace cairn
