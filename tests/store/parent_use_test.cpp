// SPDX-License-Identifier: Apache-2.0
// Directories above targets that saves make, share and remove: also those that lie in each other.
#include "store/internal/parent_use.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <set>

#include <gmock/gmock.h>

#include "store/internal/save_target.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

/// Notes the directories that are synced.
class Syncs final : public testing::ForwardingSyscalls {
 public:
  int sync(int fd) noexcept override {
    struct ::stat found {};
    ::fstat(fd, &found);
    synced_.insert(found.st_ino);
    return ForwardingSyscalls::sync(fd);
  }

  [[nodiscard]] bool has(const std::filesystem::path& path) const {
    struct ::stat found {};
    return ::stat(path.c_str(), &found) == 0 && synced_.contains(found.st_ino);
  }

 private:
  std::set<ino_t> synced_;
};

class ParentUses : public ::testing::Test {
 protected:
  [[nodiscard]] SaveTarget look(const std::string& path) {
    return look_at_target(syscalls_, root_ / path, false, 3);
  }
  [[nodiscard]] bool is_there(const std::string& path) const { return std::filesystem::exists(root_ / path); }

  testing::TempDir root_;
  Syncs syscalls_;
};

TEST_F(ParentUses, LeaveADirectoryThatASaveAboveStillUses) {
  SaveTarget deep = look("new/sub/a");
  SaveTarget high = look("new/b");

  deep.use.reset();
  EXPECT_FALSE(is_there("new/sub"));
  EXPECT_TRUE(is_there("new"));

  high.use.reset();
  EXPECT_FALSE(is_there("new"));
}

TEST_F(ParentUses, LeaveADirectoryThatASaveBelowStillUses) {
  SaveTarget high = look("new/b");
  SaveTarget deep = look("new/sub/a");

  high.use.reset();
  EXPECT_TRUE(is_there("new/sub"));

  deep.use.reset();
  EXPECT_FALSE(is_there("new"));
}

TEST_F(ParentUses, KeepWhatLiesAboveACheckpoint) {
  SaveTarget failed = look("new/sub/a");
  SaveTarget committed = look("new/sub/deeper/b");
  committed.use->keep();

  committed.use.reset();
  failed.use.reset();

  EXPECT_TRUE(is_there("new/sub/deeper"));
}

TEST_F(ParentUses, MakeDurableWhatAnotherSaveHasMadeAbove) {
  const SaveTarget made = look("new/sub/a");
  const SaveTarget below = look("new/sub/deeper/b");

  below.use->sync();

  EXPECT_TRUE(syscalls_.has(root_.path()));
  EXPECT_TRUE(syscalls_.has(root_ / "new"));
  EXPECT_TRUE(syscalls_.has(root_ / "new/sub"));
}

TEST_F(ParentUses, SyncNothingWhereNothingWasMissing) {
  std::filesystem::create_directory(root_ / "there");
  const SaveTarget target = look("there/a");

  target.use->sync();

  EXPECT_FALSE(syscalls_.has(root_.path()));
}

}  // namespace
}  // namespace cairn::store
