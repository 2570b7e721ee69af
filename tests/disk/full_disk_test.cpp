// SPDX-License-Identifier: Apache-2.0
// A file system without room.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/training/checkpointer.hpp"

#include "disk/on_disk.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::disk {
namespace {

using cairn::testing::FailsWithErrno;
using cairn::testing::list_tree;
using ::testing::HasSubstr;

class FullDisk : public OnDiskTest {
 protected:
  /// Fills the file system, but for `left` bytes or a little less.
  void fill(std::uint64_t left) const {
    const int file = ::open(filler().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    std::uint64_t size = 0;
    // Each step as large as is free, by and by less: what a file system says to be free it may need for itself.
    for (std::uint64_t step = free_bytes(); step >= 4096; step /= 2) {
      while (free_bytes() >= left + step &&
             ::posix_fallocate(file, static_cast<off_t>(size), static_cast<off_t>(step)) == 0) {
        size += step;
      }
    }
    ::fsync(file);
    ::close(file);
  }

  void make_room() const { std::filesystem::remove(filler()); }

 private:
  [[nodiscard]] std::filesystem::path filler() const { return disk_.root().parent_path() / "filler"; }

  [[nodiscard]] std::uint64_t free_bytes() const {
    struct statvfs status {};
    ::statvfs(disk_.root().c_str(), &status);
    return std::uint64_t{status.f_bfree} * status.f_frsize;
  }
};

TEST_P(FullDisk, KeepsTheOldCheckpointAndNothingOfTheNew) {
  const std::vector<std::string> before = list_tree(disk_.root());
  for (const std::uint64_t left : {0, 4 << 10, 16 << 10, 100 << 10, 1000 << 10}) {
    fill(left);

    EXPECT_THAT([&] { save_number(2); }, FailsWithErrno(ENOSPC, HasSubstr(disk_.root().string()))) << left;

    EXPECT_EQ(list_tree(disk_.root()), before) << left;
    EXPECT_EQ(saved_number(), 1) << left;
    make_room();
  }
}

TEST_P(FullDisk, TakesTheNextSaveWhenThereIsRoomAgain) {
  fill(0);
  EXPECT_THAT([&] { save_number(2); }, FailsWithErrno(ENOSPC, HasSubstr(disk_.root().string())));
  make_room();

  save_number(3);

  EXPECT_EQ(saved_number(), 3);
}

TEST_P(FullDisk, LetsATrainingRemoveStepsAndGoOn) {
  const std::filesystem::path root = disk_.root() / "run";
  CheckpointerOptions options;
  options.keep = keep::any_of({keep::latest(1), keep::at_steps({1})});
  Checkpointer run(root, options, context_);
  for (const std::uint64_t number : {1, 2}) {
    run.save(number, {{"state", state(static_cast<std::int64_t>(number))}}).wait();
  }
  run.wait();
  fill(0);

  EXPECT_THAT(
      [&] {
        run.save(3, {{"state", state(3)}}).wait();
      },
      FailsWithErrno(ENOSPC, HasSubstr(root.string())));
  run.remove(1);

  EXPECT_THAT(run.steps(), ::testing::ElementsAre(2));
  EXPECT_THAT(*StepDirectory(root, {}, context_).steps(), ::testing::ElementsAre(2));
  make_room();
  run.save(3, {{"state", state(3)}});
  run.close();
  EXPECT_THAT(run.steps(), ::testing::ElementsAre(3));
  EXPECT_EQ(run.load(3).take<Tree>("state"), state(3));
}

INSTANTIATE_TEST_SUITE_P(FileSystems, FullDisk,
                         ::testing::Values(Setting{kExt4, io::EngineKind::automatic, kLarge},
                                           Setting{kExt4, io::EngineKind::threads, kLarge},
                                           Setting{kXfs, io::EngineKind::automatic, kLarge},
                                           Setting{kXfs, io::EngineKind::threads, kLarge},
                                           Setting{kBtrfs, io::EngineKind::automatic, kLarge},
                                           Setting{kBtrfs, io::EngineKind::threads, kLarge}),
                         [](const auto& setting) { return name_of(setting.param); });

}  // namespace
}  // namespace cairn::disk
