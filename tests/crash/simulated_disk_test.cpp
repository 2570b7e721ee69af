// SPDX-License-Identifier: Apache-2.0
#include "crash/simulated_disk.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "io/internal/syscalls.hpp"

namespace cairn::crash {
namespace {

using io::FileKind;

/// The same for every file: index of the size, index of every sector.
class FixedFate final : public Fate {
 public:
  FixedFate(std::size_t size, std::size_t sector) : size_(size), sector_(sector) {}

  std::size_t size(std::size_t sizes) override { return std::min(size_, sizes - 1); }
  std::size_t sector(std::size_t versions, bool can_be_garbage) override {
    return std::min(sector_, can_be_garbage ? versions : versions - 1);
  }

 private:
  std::size_t size_;
  std::size_t sector_;
};

constexpr std::size_t kLast = 100;

SimulatedDisk cut(const SimulatedDisk& disk, bool keeps_names) {
  FixedFate lost(0, 0);
  return disk.after_power_cut(std::vector<bool>(disk.pending_names(), keeps_names), lost);
}

std::string data_of(const SimulatedDisk& disk, std::string_view name) {
  return disk.node(*disk.find(kRootInode, name)).data;
}

TEST(SimulatedDiskCut, MayLoseTheNameOfASyncedFile) {
  SimulatedDisk disk;
  const Inode file = disk.make(kRootInode, "a", FileKind::regular);
  disk.write(file, 0, "text");
  disk.sync(file);

  EXPECT_FALSE(cut(disk, false).find(kRootInode, "a"));
}

TEST(SimulatedDiskCut, MayLoseTheDataOfAFileWhoseNameIsSynced) {
  SimulatedDisk disk;
  const Inode file = disk.make(kRootInode, "a", FileKind::regular);
  disk.write(file, 0, "text");
  disk.sync(kRootInode);

  EXPECT_EQ(data_of(cut(disk, false), "a"), "");
}

TEST(SimulatedDiskCut, KeepsWhatIsSynced) {
  SimulatedDisk disk;
  const Inode file = disk.make(kRootInode, "a", FileKind::regular);
  disk.write(file, 0, "text");
  disk.sync(file);
  disk.sync(kRootInode);

  EXPECT_EQ(data_of(cut(disk, false), "a"), "text");
}

TEST(SimulatedDiskCut, MayLeaveASizeWithoutData) {
  SimulatedDisk disk;
  const Inode file = disk.make(kRootInode, "a", FileKind::regular);
  disk.sync(kRootInode);
  disk.resize(file, 4);
  disk.write(file, 0, "text");

  FixedFate hollow(kLast, 0);
  EXPECT_EQ(data_of(disk.after_power_cut({}, hollow), "a"), std::string(4, '\0'));
}

TEST(SimulatedDiskCut, MayLeaveGarbageWhereNothingWasSynced) {
  SimulatedDisk disk;
  const Inode file = disk.make(kRootInode, "a", FileKind::regular);
  disk.sync(kRootInode);
  disk.write(file, 0, "text");

  FixedFate garbage(kLast, kLast);
  const std::string data = data_of(disk.after_power_cut({}, garbage), "a");
  EXPECT_EQ(data.size(), 4u);
  EXPECT_NE(data, "text");
  EXPECT_NE(data, std::string(4, '\0'));
}

TEST(SimulatedDiskCut, TearsAnUnsyncedWriteAtASector) {
  SimulatedDisk disk;
  const Inode file = disk.make(kRootInode, "a", FileKind::regular);
  disk.write(file, 0, std::string(2 * kSectorBytes, 'o'));
  disk.sync_all();
  disk.write(file, 0, std::string(2 * kSectorBytes, 'n'));

  class SecondOnly final : public Fate {
   public:
    std::size_t size(std::size_t) override { return 0; }
    std::size_t sector(std::size_t, bool) override { return sector_++; }

   private:
    std::size_t sector_ = 0;
  };
  SecondOnly fate;
  EXPECT_EQ(data_of(disk.after_power_cut({}, fate), "a"),
            std::string(kSectorBytes, 'o') + std::string(kSectorBytes, 'n'));
}

TEST(SimulatedDiskCut, MayKeepALaterNameAndLoseAnEarlierOne) {
  SimulatedDisk disk;
  disk.make(kRootInode, "a", FileKind::regular);
  disk.make(kRootInode, "b", FileKind::regular);

  FixedFate lost(0, 0);
  const SimulatedDisk left = disk.after_power_cut({false, true}, lost);

  EXPECT_FALSE(left.find(kRootInode, "a"));
  EXPECT_TRUE(left.find(kRootInode, "b"));
}

TEST(SimulatedDiskCut, ChangesBothNamesOfARenameOrNone) {
  SimulatedDisk disk;
  disk.make(kRootInode, "a", FileKind::regular);
  disk.sync_all();
  disk.rename(kRootInode, "a", kRootInode, "b");

  for (const bool is_kept : {false, true}) {
    const SimulatedDisk left = cut(disk, is_kept);
    EXPECT_EQ(left.find(kRootInode, "a").has_value(), !is_kept);
    EXPECT_EQ(left.find(kRootInode, "b").has_value(), is_kept);
  }
}

TEST(SimulatedDiskCut, NeverLeavesAMovedFileUnderTwoNames) {
  SimulatedDisk disk;
  disk.make(kRootInode, "a", FileKind::regular);
  disk.sync_all();
  disk.rename(kRootInode, "a", kRootInode, "b");
  disk.rename(kRootInode, "b", kRootInode, "c");

  FixedFate lost(0, 0);
  const SimulatedDisk left = disk.after_power_cut({false, true}, lost);

  EXPECT_TRUE(left.find(kRootInode, "a"));
  EXPECT_FALSE(left.find(kRootInode, "c"));
}

TEST(SimulatedDiskCut, LosesAnExchangeWithTheRenameThatBroughtOneOfTheTwo) {
  SimulatedDisk disk;
  disk.make(kRootInode, "a", FileKind::regular);
  disk.sync_all();
  disk.rename(kRootInode, "a", kRootInode, "b");
  disk.make(kRootInode, "c", FileKind::regular);
  disk.exchange(kRootInode, "c", kRootInode, "b");

  FixedFate lost(0, 0);
  const SimulatedDisk left = disk.after_power_cut({false, true, true}, lost);

  EXPECT_TRUE(left.find(kRootInode, "a"));
  EXPECT_FALSE(left.find(kRootInode, "b"));
}

TEST(SimulatedDiskSync, OfAnExchangeMakesTheRenameBeforeItDurable) {
  SimulatedDisk disk;
  const Inode other = disk.make(kRootInode, "other", FileKind::directory);
  disk.make(kRootInode, "a", FileKind::regular);
  disk.make(other, "c", FileKind::regular);
  disk.sync_all();
  disk.rename(kRootInode, "a", kRootInode, "b");
  disk.exchange(other, "c", kRootInode, "b");
  disk.sync(other);

  const SimulatedDisk left = cut(disk, false);

  EXPECT_FALSE(left.find(kRootInode, "a"));
  EXPECT_TRUE(left.find(kRootInode, "b"));
}

TEST(SimulatedDiskSync, OfOneDirectoryMakesARenameIntoItDurable) {
  SimulatedDisk disk;
  const Inode other = disk.make(kRootInode, "other", FileKind::directory);
  disk.make(kRootInode, "a", FileKind::regular);
  disk.sync_all();
  disk.rename(kRootInode, "a", other, "a");
  disk.sync(other);

  const SimulatedDisk left = cut(disk, false);

  EXPECT_FALSE(left.find(kRootInode, "a"));
  EXPECT_TRUE(left.find(other, "a"));
}

TEST(SimulatedDiskSync, IsNotUndoneByAnEarlierChangeOfTheSameName) {
  SimulatedDisk disk;
  const Inode other = disk.make(kRootInode, "other", FileKind::directory);
  disk.sync_all();
  disk.make(kRootInode, "a", FileKind::regular);
  disk.rename(kRootInode, "a", other, "a");
  disk.sync(other);

  const SimulatedDisk left = cut(disk, true);

  EXPECT_FALSE(left.find(kRootInode, "a"));
  EXPECT_TRUE(left.find(other, "a"));
}

/// Nothing is synced, but the directory in which it happens.
SimulatedDisk with_file_of_machine_1() {
  SimulatedDisk disk;
  disk.write_as(1);
  const Inode file = disk.make(kRootInode, "a", FileKind::regular);
  disk.write(file, 0, "text");
  return disk;
}

TEST(SimulatedDiskLossOfAMachine, TakesUnsyncedFilesAndTheirNames) {
  SimulatedDisk disk = with_file_of_machine_1();
  FixedFate lost(0, 0);
  disk.lose_machine(1, lost);

  EXPECT_FALSE(disk.find(kRootInode, "a"));
}

TEST(SimulatedDiskLossOfAMachine, LeavesTheNameOfAFileInASyncedDirectory) {
  SimulatedDisk disk = with_file_of_machine_1();
  disk.sync(kRootInode);
  FixedFate lost(0, 0);
  disk.lose_machine(1, lost);

  EXPECT_EQ(data_of(disk, "a"), "");
}

TEST(SimulatedDiskLossOfAMachine, LeavesWhatAnotherMachineHasOpened) {
  SimulatedDisk disk = with_file_of_machine_1();
  disk.open_as(2, *disk.find(kRootInode, "a"));
  FixedFate lost(0, 0);
  disk.lose_machine(1, lost);

  EXPECT_EQ(data_of(disk, "a"), "text");
}

TEST(SimulatedDiskLossOfAMachine, LeavesWhatOthersHaveWritten) {
  SimulatedDisk disk = with_file_of_machine_1();
  FixedFate lost(0, 0);
  disk.lose_machine(2, lost);

  EXPECT_EQ(data_of(disk, "a"), "text");
}

TEST(SimulatedDiskLossOfAMachine, LeavesNamesThatItHasMovedSince) {
  SimulatedDisk disk = with_file_of_machine_1();
  disk.rename(kRootInode, "a", kRootInode, "b");
  FixedFate lost(0, 0);
  disk.lose_machine(1, lost);

  EXPECT_TRUE(disk.find(kRootInode, "b"));
}

TEST(SimulatedDisk, CopiesDoNotShareChanges) {
  SimulatedDisk disk;
  const Inode file = disk.make(kRootInode, "a", FileKind::regular);
  const SimulatedDisk copy = disk;

  disk.write(file, 0, "text");
  disk.unlink(kRootInode, "a");

  EXPECT_EQ(data_of(copy, "a"), "");
  EXPECT_NE(copy.fingerprint(), disk.fingerprint());
}

}  // namespace
}  // namespace cairn::crash
