// SPDX-License-Identifier: Apache-2.0
// Directories above targets that saves make, share and remove: also those that lie in each other.
#include "store/internal/parent_use.hpp"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <latch>
#include <set>
#include <thread>

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

/// Has another thread join the use of a directory that is just being removed: it waits for the lock of the removal, and
/// is then the last to have that use. ThreadSanitizer tells whether it lets go of it before its lock.
class JoinedRemoval final : public testing::ForwardingSyscalls {
 public:
  ~JoinedRemoval() override {
    if (joiner_.joinable()) {
      joiner_.join();
    }
  }

  int unlink_at(int directory, const char* name, bool is_directory) noexcept override {
    struct ::stat found {};
    ::fstatat(directory, name, &found, 0);
    std::latch begins(1);
    joiner_ = std::thread([&begins, id = io::FileId{found.st_dev, found.st_ino}] {
      begins.count_down();
      static_cast<void>(ParentUse::join(id));
    });
    begins.wait();
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // If that is too short, it joins nothing old.
    return ForwardingSyscalls::unlink_at(directory, name, is_directory);
  }

 private:
  std::thread joiner_;
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

TEST_F(ParentUses, EndSafelyForWhoJoinsDuringTheRemoval) {
  JoinedRemoval removal;
  SaveTarget target = look_at_target(removal, root_ / "new/a", false, 1);

  target.use.reset();

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
