// SPDX-License-Identifier: Apache-2.0
// What lies in a checkpoint's directory and is not the checkpoint's: plots, notes, another checkpoint. Nothing of Cairn
// removes it.
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/internal/uuid.hpp"
#include "store/internal/verify.hpp"
#include "store/names.hpp"
#include "store/retire.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list_tree;
using testing::read_text;
using testing::TempDir;
using testing::write_text;

/// A checkpoint with notes of the user's in it, and another checkpoint.
class ForeignContents : public ::testing::Test {
 protected:
  ForeignContents() {
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    engine_ = io::make_engine(io::EngineKind::threads, options).engine;
    save_sample(*engine_, temp_ / "inner", "inner");
    save_sample(*engine_, target_, "old");
    put_foreign(target_);
  }

  void put_foreign(const std::filesystem::path& directory) const {
    std::filesystem::create_directory(directory / "plots");
    write_text(directory / "plots/loss", "mine");
    write_text(directory / "state/notes", "mine");
    std::filesystem::copy(temp_ / "inner", directory / "inner", std::filesystem::copy_options::recursive);
  }

  static void expect_foreign(const std::filesystem::path& directory) {
    EXPECT_EQ(read_text(directory / "plots/loss"), "mine");
    EXPECT_EQ(read_text(directory / "state/notes"), "mine");
    EXPECT_EQ(load_sample(directory / "inner"), "inner");
    EXPECT_FALSE(std::filesystem::exists(directory / "state/data")) << "what is the checkpoint's goes";
    EXPECT_FALSE(std::filesystem::exists(directory / "COMMIT"));
  }

  /// The one entry of the root that has a name of Cairn's own.
  [[nodiscard]] std::filesystem::path reserved() const {
    for (const auto& entry : std::filesystem::directory_iterator(temp_.path())) {
      if (reserved_kind(entry.path().filename().string())) {
        return entry.path();
      }
    }
    return {};
  }

  TempDir temp_;
  std::filesystem::path target_ = temp_ / "step";
  io::FaultySyscalls syscalls_;
  std::unique_ptr<io::Engine> engine_;
};

TEST_F(ForeignContents, AreNotSavedThere) {
  std::filesystem::create_directories(target_ / "plots/deep/deeper");
  std::filesystem::create_directory_symlink(target_ / "plots/deep/deeper", temp_ / "link");

  for (const std::filesystem::path& target :
       {target_ / "another", target_ / "state/another", target_ / "plots/deep/deeper/another",
        temp_ / "link/another", target_ / "plots/../another", target_ / "inner"}) {
    EXPECT_THAT([&] { save_sample(*engine_, target, "x", overwriting()); },
                Fails(Errc::invalid_argument,
                      AllOf(HasSubstr(target.string()),
                            HasSubstr(std::filesystem::canonical(target_).string() + ", which holds only"))));
  }
  EXPECT_EQ(load_sample(target_ / "inner"), "inner");
}

TEST_F(ForeignContents, MayBeSavedWhereADirectoryOnlyLooksLikeACheckpoint) {
  std::filesystem::create_directory(temp_ / "run");
  write_text(temp_ / "run/COMMIT", "a list of commits");

  EXPECT_NO_THROW(save_sample(*engine_, temp_ / "run/step", "x"));
}

TEST_F(ForeignContents, OutliveARemovalWhereTheyWere) {
  const RemovalReport report = remove_checkpoint(syscalls_, target_);

  expect_foreign(target_);
  EXPECT_THAT(report.kept, ElementsAre(HasSubstr("kept in " + target_.string() + ",")));
  EXPECT_THAT(report.kept, ElementsAre(HasSubstr("'inner', 'plots', 'state/notes'")));
  EXPECT_TRUE(reserved().empty());
}

TEST_F(ForeignContents, AreNamedUpToTen) {
  save_sample(*engine_, temp_ / "many", "sample");
  for (int i = 0; i < 12; ++i) {
    write_text(temp_ / "many" / ("notes" + std::to_string(i)), "mine");
  }

  EXPECT_THAT(remove_checkpoint(io::posix_syscalls(), temp_ / "many").kept,
              ElementsAre(HasSubstr("and 2 more")));
}

TEST_F(ForeignContents, AreNoCheckpointAfterARemoval) {
  remove_checkpoint(syscalls_, target_);

  EXPECT_THAT([&] { load_sample(target_); }, Fails(Errc::not_committed));
  EXPECT_THAT([&] { remove_checkpoint(syscalls_, target_); }, Fails(Errc::not_committed));
  EXPECT_THAT([&] { save_sample(*engine_, target_, "new", overwriting()); }, Fails(Errc::already_exists));
  expect_foreign(target_);
}

TEST_F(ForeignContents, OutliveAnOverwriteAndAreReported) {
  StagedDirectory staged = StagedDirectory::create(*engine_, target_, overwriting());

  staged.publish(sample_manifest(), {});

  ASSERT_FALSE(reserved().empty());
  expect_foreign(reserved());
  EXPECT_THAT(staged.retirement_problem(), HasSubstr("kept in " + reserved().string()));
  recover(syscalls_, temp_.path());
  expect_foreign(reserved());
}

TEST_F(ForeignContents, OutliveAnOverwriteByGenerationWhereTheyWere) {
  syscalls_.lacks_rename_modes = true;
  StagedDirectory staged = StagedDirectory::create(*engine_, target_, overwriting());

  staged.publish(sample_manifest(), {});

  expect_foreign(target_);
  EXPECT_THAT(staged.retirement_problem(), HasSubstr("kept in " + target_.string() + ","));
  recover(syscalls_, temp_.path());
  expect_foreign(target_);
  EXPECT_EQ(CommittedDirectory::open(syscalls_, target_).path(), temp_ / "step.g2");
}

TEST_F(ForeignContents, BesideAGenerationDoNotKeepItFromBeingRemoved) {
  syscalls_.lacks_rename_modes = true;
  save_sample(*engine_, target_, "new", overwriting());

  remove_checkpoint(syscalls_, target_);

  expect_foreign(target_);
  EXPECT_FALSE(std::filesystem::exists(temp_ / "step.g2"));
}

TEST_F(ForeignContents, OutliveARecoveryThatEndsARemoval) {
  std::filesystem::rename(target_, temp_ / trash_name("step", make_uuid(system_random)));

  recover(syscalls_, temp_.path());

  expect_foreign(target_);
  EXPECT_TRUE(reserved().empty());
}

TEST_F(ForeignContents, OutliveARecoveryThatEndsAnOverwrite) {
  std::filesystem::rename(target_, temp_ / temporary_name("step", make_uuid(system_random)));
  save_sample(*engine_, target_, "new");

  const RecoveryReport report = recover(syscalls_, temp_.path());

  expect_foreign(reserved());
  EXPECT_THAT(report.entries.front().note, HasSubstr("kept in"));
  EXPECT_EQ(load_sample(target_), "new");
}

TEST_F(ForeignContents, OutliveEveryFaultOfARemoval) {
  for (const io::Call call :
       {io::Call::unlink, io::Call::rename, io::Call::open, io::Call::list, io::Call::sync}) {
    for (int first = 1; first < 100; ++first) {
      const TempDir temp;
      save_sample(*engine_, temp / "step", "x");
      write_text(temp / "step/notes", "mine");
      syscalls_.plan({call, first, 1, -EIO});
      try {
        remove_checkpoint(syscalls_, temp / "step");
      } catch (const Error&) {  // The rest is for recovery.
      }
      const bool is_hit = syscalls_.hits() > 0;
      syscalls_.clear();

      recover(syscalls_, temp.path());

      int notes = 0;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(temp.path())) {
        notes += entry.path().filename() == "notes" ? 1 : 0;
      }
      ASSERT_EQ(notes, 1) << static_cast<int>(call) << " " << first;
      if (!is_hit) {
        break;
      }
    }
  }
}

TEST_F(ForeignContents, DoNotGiveTheirNameToWhatHasTakenTheirPlace) {
  const io::Directory parent = io::Directory::open(syscalls_, temp_.path());
  const std::string trash = trash_name("step", make_uuid(system_random));
  std::filesystem::rename(target_, temp_ / trash);
  const io::Directory directory = parent.open_directory(trash);
  std::filesystem::rename(temp_ / trash, temp_ / "elsewhere");
  std::filesystem::create_directory(temp_ / trash);

  EXPECT_THAT(remove_retired(parent, trash, directory), HasSubstr(trash));

  EXPECT_TRUE(std::filesystem::exists(temp_ / trash)) << "it is somebody else's";
  expect_foreign(temp_ / "elsewhere");
}

TEST_F(ForeignContents, ThatAreEmptyDirectoriesGo) {
  std::filesystem::remove_all(target_);
  save_sample(*engine_, target_, "x");
  std::filesystem::create_directories(target_ / "state/empty/inside");

  EXPECT_THAT(remove_checkpoint(syscalls_, target_).kept, IsEmpty());

  EXPECT_FALSE(std::filesystem::exists(target_));
}

TEST_F(ForeignContents, OfACheckpointWhoseManifestIsDamagedAreNotGuessedAt) {
  write_text(target_ / "checkpoint.json", "{");
  StagedDirectory staged = StagedDirectory::create(*engine_, target_, overwriting());

  staged.publish(sample_manifest(), {});

  EXPECT_THAT(staged.retirement_problem(), HasSubstr("cannot determine which files"));
  EXPECT_EQ(read_text(reserved() / "plots/loss"), "mine");
  EXPECT_TRUE(std::filesystem::exists(reserved() / "state/data"));
}

}  // namespace
}  // namespace cairn::store
