// SPDX-License-Identifier: Apache-2.0
// What it costs to remove many steps or to go on from the newest, and what a step is called that was overwritten.
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "support/forwarding_syscalls.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

/// Counts how often the root is listed.
class CountedLists final : public testing::ForwardingSyscalls {
 public:
  int list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept override {
    struct stat found {};
    lists_of_root += ::fstat(directory, &found) == 0 && found.st_ino == root.load() ? 1 : 0;
    return ForwardingSyscalls::list(directory, entries);
  }

  std::atomic<ino_t> root{0};
  std::atomic<int> lists_of_root{0};
};

class ManyRemovals : public testing::Checkpointers {
 protected:
  ManyRemovals() : ManyRemovals(std::make_shared<CountedLists>()) {}
  explicit ManyRemovals(std::shared_ptr<CountedLists> files)
      : Checkpointers(over(files)), files_(std::move(files)) {}

  static ContextOptions over(std::shared_ptr<CountedLists> files) {
    ContextOptions options = small();
    options.syscalls = std::move(files);
    return options;
  }

  void save_so_many(std::uint64_t count) {
    for (std::uint64_t step = 1; step <= count; ++step) {
      save_alone(std::to_string(step));
    }
    struct stat found {};
    EXPECT_EQ(::stat(root().c_str(), &found), 0);
    files_->root = found.st_ino;
  }

  /// How often the root is listed while a save has so many steps removed.
  int lists_to_remove(std::uint64_t count) {
    save_so_many(count);
    const auto run = make(keeping(keep::latest(1)));
    files_->lists_of_root = 0;
    save(*run, count + 1);
    run->wait();
    const int lists = files_->lists_of_root;
    EXPECT_THAT(run->steps(), ElementsAre(count + 1));
    run->close();
    fs::remove_all(root());
    return lists;
  }

  std::shared_ptr<CountedLists> files_;
};

TEST_F(ManyRemovals, ListTheRootAsOftenAsFew) {
  const int for_few = lists_to_remove(3);

  EXPECT_EQ(lists_to_remove(30), for_few);
}

/// For the names, for what each is, and by the load for generations of the newest.
TEST_F(ManyRemovals, ThatAreYetToComeAreListedThreeTimesByAResume) {
  save_so_many(5);
  const auto run = make();
  files_->lists_of_root = 0;

  EXPECT_EQ(run->resume()->step, 5u);

  EXPECT_EQ(files_->lists_of_root, 3);
}

TEST_F(ManyRemovals, TakeAlongWhatLiesBesideAStep) {
  save_alone("1");
  const fs::path left = root() / ".tmp-1-f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
  fs::copy(root() / "1", left, fs::copy_options::recursive);  // What an overwrite could not remove.
  fs::copy(root() / "1", root() / "2", fs::copy_options::recursive);
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 3);
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(3));
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(ManyRemovals, AndOverwritesWithoutAnExchangeLeaveStepsThatCanBePinned) {
  const auto disk = std::make_shared<io::FaultySyscalls>();
  disk->lacks_rename_modes = true;
  ContextOptions over = small();
  over.syscalls = disk;
  const Context context(over);
  cairn::save(root() / "7", tree_, {}, context);
  StepDirectory steps(root(), {}, context);
  SaveOptions overwriting;
  overwriting.overwrite = true;
  cairn::save(root() / "7", tree_, overwriting, context);
  ASSERT_TRUE(fs::exists(root() / "7.g2"));
  steps.add(7);

  steps.pin(7);

  EXPECT_TRUE(steps.is_pinned(7));
  EXPECT_EQ(steps.entry(7), root() / "7.g2");
}

}  // namespace
}  // namespace cairn
