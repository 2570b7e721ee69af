// SPDX-License-Identifier: Apache-2.0
// What recovery believes of checkpoints under temporary names, and beside later generations: the last sound
// checkpoint of a name is removed by nothing but a removal that was asked for.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/internal/uuid.hpp"
#include "store/names.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"
#include "support/unsynced_syscalls.hpp"

namespace cairn::store {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using testing::list_tree;
using testing::TempDir;
using testing::write_text;

class DisplacedCheckpoint : public ::testing::Test {
 protected:
  /// Saves `text` and gives the checkpoint a temporary name, as an overwrite does with what it replaces.
  std::string displace(const std::string& text, StagedOptions options = {}) {
    save_sample(*engine_, target_, text, std::move(options));
    const std::string name = temporary_name("step", make_uuid(system_random));
    std::filesystem::rename(target_, temp_ / name);
    return name;
  }

  RecoveryEntry recovered(const std::string& name) {
    for (const RecoveryEntry& entry : recover(syscalls_, temp_.path()).entries) {
      if (entry.name == name) {
        return entry;
      }
    }
    return {};
  }

  [[nodiscard]] bool exists(const std::string& name) const { return std::filesystem::exists(temp_ / name); }

  TempDir temp_;
  std::filesystem::path target_ = temp_ / "step";
  io::FaultySyscalls syscalls_{testing::unsynced_syscalls()};
  std::unique_ptr<io::Engine> engine_ = testing::unsynced_engine();
};

TEST_F(DisplacedCheckpoint, IsPutBackWhereNothingHasReplacedIt) {
  const std::string name = displace("x");

  const RecoveryEntry entry = recovered(name);

  EXPECT_EQ(entry.kind, EntryClass::displaced);
  EXPECT_EQ(entry.action, RecoveryAction::restore);
  EXPECT_FALSE(entry.has_failed) << entry.note;
  EXPECT_EQ(load_sample(target_), "x");
  EXPECT_FALSE(exists(name));
}

TEST_F(DisplacedCheckpoint, IsNotMadeOfOneThatSomebodyElseHolds) {
  save_sample(*engine_, target_, "old");
  const io::Directory parent = io::Directory::open(io::posix_syscalls(), temp_.path());
  auto held = std::make_unique<CheckpointLock>(parent, "step");
  ASSERT_TRUE(held->is_held());
  StagedOptions options = overwriting();
  options.before_replacing = [] {};
  EXPECT_THAT([&] { save_sample(*engine_, target_, "new", options); },
              testing::FailsWithErrno(EBUSY, HasSubstr("being pinned or removed by somebody else")));
  int waits = 0;
  options.wait_for_lock = [&] {
    held = ++waits == 3 ? nullptr : std::move(held);
    return true;
  };

  save_sample(*engine_, target_, "new", options);

  EXPECT_EQ(waits, 3);
  EXPECT_EQ(load_sample(target_), "new");
}

TEST_F(DisplacedCheckpoint, IsPutBackWhereARenameMayReplace) {
  displace("x");
  syscalls_.lacks_rename_modes = true;

  recover(syscalls_, temp_.path());

  EXPECT_EQ(load_sample(target_), "x");
}

TEST_F(DisplacedCheckpoint, IsPutBackWithTheMarkThatACrashHasLeftInIt) {
  const std::string name = displace("x");
  mark_as_unfinished(temp_ / name);

  recover(syscalls_, temp_.path());

  EXPECT_EQ(load_sample(target_), "x");
}

TEST_F(DisplacedCheckpoint, IsPutBackAsTheGenerationThatItWas) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, target_, "one", options);
  save_sample(*engine_, target_, "two", options);
  std::filesystem::rename(temp_ / "step.g2", temp_ / temporary_name("step", make_uuid(system_random)));

  recover(syscalls_, temp_.path());

  EXPECT_TRUE(exists("step.g2"));
  EXPECT_EQ(load_sample(target_), "two");
}

TEST_F(DisplacedCheckpoint, IsKeptBesideADamagedOne) {
  const std::string name = displace("x");
  save_sample(*engine_, target_, "new");
  std::filesystem::resize_file(target_ / "state/data", 0);

  const RecoveryEntry entry = recovered(name);

  EXPECT_EQ(entry.kind, EntryClass::displaced);
  EXPECT_EQ(entry.action, RecoveryAction::keep);
  EXPECT_THAT(entry.note, HasSubstr("step is not one"));
  EXPECT_TRUE(exists(name + "/state/data"));
}

TEST_F(DisplacedCheckpoint, IsKeptWhereSomethingElseHasItsName) {
  const std::string name = displace("x");
  std::filesystem::create_directory(target_);
  write_text(target_ / "diary", "mine");

  EXPECT_EQ(recovered(name).action, RecoveryAction::keep);
  EXPECT_TRUE(exists(name + "/state/data"));
  EXPECT_TRUE(exists("step/diary"));
}

TEST_F(DisplacedCheckpoint, IsKeptWhenWhatHasItsNameCannotBeRead) {
  const std::string name = displace("x");
  save_sample(*engine_, target_, "new");
  std::filesystem::remove(target_ / "COMMIT");
  std::filesystem::create_directory(target_ / "COMMIT");  // Cannot be opened as a file.

  EXPECT_EQ(recovered(name).action, RecoveryAction::keep);
  EXPECT_TRUE(exists(name + "/state/data"));
}

TEST_F(DisplacedCheckpoint, IsNeverRemovedOnAReadThatFails) {
  for (const io::Call call : {io::Call::read, io::Call::open, io::Call::status, io::Call::list}) {
    for (int first = 1; first < 60; ++first) {
      const TempDir temp;
      const std::filesystem::path displaced = temp / temporary_name("step", make_uuid(system_random));
      save_sample(*engine_, temp / "step", "x");
      std::filesystem::rename(temp / "step", displaced);
      save_sample(*engine_, temp / "step", "new");
      std::filesystem::resize_file(temp / "step/state/data", 0);
      syscalls_.plan({call, first, 1, -EIO});
      try {
        recover(syscalls_, temp.path());
      } catch (const Error&) {  // Of the root itself.
      }
      const bool is_hit = syscalls_.hits() > 0;
      syscalls_.clear();

      ASSERT_TRUE(std::filesystem::exists(displaced / "state/data"))
          << static_cast<int>(call) << " " << first;
      if (!is_hit) {
        break;
      }
    }
  }
}

TEST_F(DisplacedCheckpoint, IsPutBackWhereASaveWasCutShort) {
  displace("x");
  std::filesystem::create_directory(target_);  // As marker mode makes it before there is a COMMIT.
  write_text(target_ / ".uncommitted", encode_owner(this_process(make_uuid(system_random))));
  write_text(target_ / "checkpoint.json", "{}");

  recover(syscalls_, temp_.path());

  EXPECT_EQ(load_sample(target_), "x");
}

TEST_F(DisplacedCheckpoint, IsKeptBesideACopyOfIt) {
  const std::string name = displace("x");
  std::filesystem::copy(temp_ / name, target_, std::filesystem::copy_options::recursive);

  EXPECT_EQ(recovered(name).action, RecoveryAction::keep);
  EXPECT_TRUE(exists(name));
}

TEST_F(DisplacedCheckpoint, IsKeptWhereTwoBelongUnderOneName) {
  const std::string one = displace("one");
  const std::string two = displace("two");

  EXPECT_THAT(recovered(one).note, HasSubstr("one of 2 checkpoints"));
  EXPECT_TRUE(exists(one) && exists(two));
  EXPECT_FALSE(exists("step"));
}

TEST_F(DisplacedCheckpoint, DoesNotComeBackWhenItsReplacementIsRemoved) {
  const std::string name = displace("old");
  save_sample(*engine_, target_, "new");

  remove_checkpoint(syscalls_, target_);
  recover(syscalls_, temp_.path());

  EXPECT_TRUE(list_tree(temp_.path()).empty()) << name;
}

TEST_F(DisplacedCheckpoint, OfARemovalDoesNotComeBack) {
  save_sample(*engine_, target_, "x");
  const std::string name = trash_name("step", make_uuid(system_random));
  std::filesystem::rename(target_, temp_ / name);

  EXPECT_EQ(recovered(name).kind, EntryClass::retired);
  EXPECT_TRUE(list_tree(temp_.path()).empty());
}

TEST_F(DisplacedCheckpoint, WithoutItsDataIsReported) {
  const std::string name = displace("x");
  std::filesystem::remove(temp_ / name / "state/data");
  write_text(temp_ / name / "mine", "x");

  EXPECT_EQ(recovered(name).kind, EntryClass::damaged);
  EXPECT_TRUE(exists(name));
}

TEST_F(DisplacedCheckpoint, WithoutAnyFileOfItsOwnIsRemoved) {
  const std::string name = displace("x");
  std::filesystem::remove(temp_ / name / "state/data");

  EXPECT_EQ(recovered(name).kind, EntryClass::retired);
  EXPECT_FALSE(exists(name));
}

using OlderGeneration = DisplacedCheckpoint;
using RecoveryOfACheckpoint = DisplacedCheckpoint;

TEST_F(OlderGeneration, ThatSomebodyCopiedBackIsKept) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, target_, "one", options);
  std::filesystem::copy(target_, temp_ / "backup", std::filesystem::copy_options::recursive);
  save_sample(*engine_, target_, "two", options);  // As step.g2.
  std::filesystem::copy(temp_ / "backup", target_, std::filesystem::copy_options::recursive);

  const RecoveryEntry entry = recovered("step");

  EXPECT_EQ(entry.kind, EntryClass::committed);
  EXPECT_THAT(entry.note, HasSubstr("step.g2 is what readers find"));
  EXPECT_TRUE(exists("step/state/data"));
}

TEST_F(OlderGeneration, ThatCouldNotBeRemovedKeepsTheMarkOfItsSuccessor) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, target_, "one", options);
  io::EngineOptions faulty;
  faulty.syscalls = &syscalls_;
  const std::unique_ptr<io::Engine> engine = io::make_engine(io::EngineKind::threads, faulty).engine;
  {
    StagedDirectory staged = StagedDirectory::create(*engine, target_, options);
    // The first makes the marked directory; then chunks.xxh3 and the manifest move; the next is of the old one.
    syscalls_.plan({io::Call::rename, 4, io::kForEver, -EIO});
    staged.publish(sample_manifest(), {});
    EXPECT_THAT(staged.retirement_problem(), HasSubstr("rename"));
    syscalls_.clear();
  }
  EXPECT_TRUE(exists("step"));

  recover(syscalls_, temp_.path());

  EXPECT_FALSE(exists("step"));
  EXPECT_TRUE(exists("step.g2"));
  EXPECT_FALSE(exists("step.g2/.uncommitted"));
}

TEST_F(OlderGeneration, BetweenTwoOthersGoesWithTheNextOverwrite) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, target_, "one", options);
  save_sample(*engine_, target_, "two", options);
  std::filesystem::copy(temp_ / "step.g2", temp_ / "kept", std::filesystem::copy_options::recursive);
  save_sample(*engine_, target_, "three", options);
  std::filesystem::rename(temp_ / "kept", temp_ / "step.g2");

  save_sample(*engine_, target_, "four", options);

  EXPECT_FALSE(exists("step.g2"));
  EXPECT_EQ(load_sample(target_), "four");
}

TEST_F(RecoveryOfACheckpoint, SaysThatItIsOne) {
  save_sample(*engine_, target_, "x");

  EXPECT_THAT([&] { recover(syscalls_, target_); },
              Fails(Errc::invalid_argument, HasSubstr("is a checkpoint")));
  EXPECT_EQ(load_sample(target_), "x");
}

using ScanOfARoot = DisplacedCheckpoint;

TEST_F(ScanOfARoot, NamesADirectoryThatMayNotBeEntered) {
  save_sample(*engine_, target_, "x");
  syscalls_.plan({io::Call::open, 2, 1, -EACCES});  // The first is of the root.

  const RecoveryReport report = scan_directory(syscalls_, temp_.path());

  ASSERT_EQ(report.entries.size(), 1u);
  EXPECT_EQ(report.entries[0].kind, EntryClass::unreadable);
  EXPECT_EQ(report.entries[0].action, RecoveryAction::keep);
  EXPECT_THAT(report.entries[0].note, HasSubstr("step"));
}

TEST_F(ScanOfARoot, NamesACheckpointWhoseCommitCannotBeRead) {
  save_sample(*engine_, target_, "x");
  syscalls_.plan({io::Call::read, 1, io::kForEver, -EIO});

  EXPECT_EQ(scan_directory(syscalls_, temp_.path()).entries.at(0).kind, EntryClass::unreadable);
}

TEST_F(ScanOfARoot, SaysWhatRecoveryDoes) {
  displace("x");
  std::filesystem::create_directory(temp_ / temporary_name("empty", make_uuid(system_random)));
  save_sample(*engine_, temp_ / "other", "x");

  const RecoveryReport plan = scan_directory(syscalls_, temp_.path());
  const RecoveryReport done = recover(syscalls_, temp_.path());

  ASSERT_EQ(plan.entries.size(), done.entries.size());
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    EXPECT_EQ(plan.entries[i].kind, done.entries[i].kind) << plan.entries[i].name;
    EXPECT_EQ(plan.entries[i].action, done.entries[i].action) << plan.entries[i].name;
  }
}

}  // namespace
}  // namespace cairn::store
